# docker build --target cpu -t firstword:cpu .
# docker build --target cuda -t firstword:cuda .
# docker buildx bake -f deploy/docker-bake.hcl    both, the CPU's for arm64 too

# The dependencies come before our source, so that a change of source does not fetch them again.
FROM python:3.11-bookworm AS dependencies
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/firstword
WORKDIR /source
COPY pyproject.toml requirements.lock README.md LICENSE NOTICE ./
COPY deploy/lock.py deploy/lock.py
# By their hashes, all but torch and what it brings.
RUN python deploy/lock.py otel postgresql grpc > packages.txt \
    && pip --python /opt/firstword/bin/python install --require-hashes --no-deps -r packages.txt

# torch for the CPU alone is a tenth of the size: --build-arg TORCH_INDEX=<the address of its CPU wheels>.
FROM dependencies AS packages-cpu
ARG TORCH_INDEX= TORCH=torch==2.13.0
RUN pip --python /opt/firstword/bin/python install \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} $TORCH '.[otel,postgresql,grpc]'
COPY firstword firstword
COPY app app
COPY bench bench
COPY clients clients
COPY finetune finetune
COPY models models
RUN pip --python /opt/firstword/bin/python install --no-deps --force-reinstall .

# The ordinary torch brings CUDA's libraries with it, vLLM its kernels; the host brings the driver. These two and
# what they need beyond the lock are held by version alone: the lock leaves them out (deploy/lock.py), and vLLM
# may bring other versions of what is locked.
# TensorRT-RTX is locked, and lies unused until FIRSTWORD_FLOW_BACKEND asks for it.
FROM dependencies AS packages-cuda
RUN python deploy/lock.py tensorrt > packages.txt \
    && pip --python /opt/firstword/bin/python install --require-hashes --no-deps -r packages.txt
ARG TORCH=torch==2.13.0
RUN pip --python /opt/firstword/bin/python install $TORCH '.[otel,postgresql,grpc,tensorrt,vllm]'
COPY firstword firstword
COPY app app
COPY bench bench
COPY clients clients
COPY finetune finetune
COPY models models
RUN pip --python /opt/firstword/bin/python install --no-deps --force-reinstall .

FROM python:3.11-slim-bookworm AS service
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip setuptools wheel \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin firstword \
    && install --directory --owner=firstword --group=firstword /data /models
ENV PATH=/opt/firstword/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FIRSTWORD_HOST=0.0.0.0 \
    FIRSTWORD_DATA_DIR=/data
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
USER 10001
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s --retries=3 CMD ["python", "-c", \
"import http.client, os, sys; \
server = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('FIRSTWORD_PORT') or 8000), timeout=2); \
server.request('GET', '/livez'); \
sys.exit(server.getresponse().status != 200)"]
ENTRYPOINT ["firstword"]
CMD ["serve"]

# Triton, in vLLM and in torch, builds its launchers with a C compiler when it first runs.
FROM service AS cuda
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
USER 10001
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    XDG_CACHE_HOME=/data/cache \
    TRITON_CACHE_DIR=/data/cache/triton \
    TORCHINDUCTOR_CACHE_DIR=/data/cache/inductor
COPY --from=packages-cuda /opt/firstword /opt/firstword

# The last one is what `docker build .` makes.
FROM service AS cpu
COPY --from=packages-cpu /opt/firstword /opt/firstword
