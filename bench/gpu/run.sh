#!/bin/bash
# One run of the GPU kit where there is no network: run.sh PART[,PART…] [words of `python -m bench gpu`]
#
# In the root of the repository, beside a torch that is there; `make gpu-kit` put the wheels into build/gpu-kit. PART:
# probe, service, networks, vllm, tensorrt, compiled. OUT: where the results go, at most 8 files. LIMIT_S: when it ends
# at the latest, 400 s if not set.
set -u
parts=${1:?expected a part: probe, service, networks, vllm, tensorrt, compiled}
shift
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
out=${OUT:-build/bench/gpu}
limit_s=${LIMIT_S:-400}
began_s=$(date +%s)
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD
unset PYTHONDONTWRITEBYTECODE # each server would compile anew what it imports

if compgen -G 'build/gpu-kit/*.whl' > /dev/null; then
    site=$(mktemp -d)
    trap 'rm -rf "$site"' EXIT
    timeout -k 5 60 "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$site" \
        --disable-pip-version-check build/gpu-kit/*.whl || { echo "the wheels of build/gpu-kit could not be installed"; exit 1; }
    mkdir -p "$site/firstword-0.dist-info" # the version is asked for at the start
    printf 'Metadata-Version: 2.1\nName: firstword\nVersion: 0\n' > "$site/firstword-0.dist-info/METADATA"
    export PYTHONPATH=$site:$PWD
fi

# The kit ends by itself; what it cannot end, such as an import that hangs, is ended here.
left_s=$((limit_s - ($(date +%s) - began_s)))
timeout -k 5 $((left_s - 5)) "$python" -m firstword.bench gpu \
    --parts "$parts" --began "$began_s" --limit $((limit_s - 25)) --out "$out" "$@"
code=$?
[ $code -ge 124 ] && echo "ended after $limit_s s; what had been measured is in $out/rows.jsonl"
exit $code
