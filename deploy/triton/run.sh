#!/usr/bin/env bash
# The deployment on NVIDIA's tritonserver, from --stage to --stop-stage; docs/nvidia.md explains them:
#   0 download a checkpoint   1 engines   2 model repository   3 tritonserver
#   4 HTTP client   5 gRPC benchmark   6 the texts without a server
# What stands behind `--` goes to `firstword triton init`. Stage 3 as the last one stays in the foreground.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
installed=$here/../../.venv/triton/tritonserver
stage=0 stop_stage=3
model=CosyVoice2-0.5B checkpoint='' repository=model_repository
http_port=8000 grpc_port=8001 metrics_port=8002 engine_metrics_port=8003
data='' output=output concurrency=1,2,4
init=()
while [ $# -gt 0 ]; do
    case $1 in
        --stage | --stop-stage | --model | --checkpoint | --repository | --http-port | --grpc-port \
            | --metrics-port | --engine-metrics-port | --data | --output | --concurrency)
            [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
            name=${1#--}
            printf -v "${name//-/_}" %s "$2"
            shift 2
            ;;
        --) shift; init=("$@"); break ;;
        *) echo "run.sh: unknown option $1; the head of $0 names them" >&2; exit 2 ;;
    esac
done
checkpoint=${checkpoint:-models/$model}
server=${TRITONSERVER:-tritonserver}
[ -n "${TRITONSERVER:-}" ] || ! [ -x "$installed" ] || server=$installed
runs() { [ "$stage" -le "$1" ] && [ "$1" -le "$stop_stage" ]; }

if runs 0 && [ "$checkpoint" != builtin ]; then
    firstword download "$model" --to "$checkpoint" --if-missing
fi
if runs 1; then
    if [ "${FIRSTWORD_FLOW_BACKEND:-}" = tensorrt ]; then
        [ "$checkpoint" = builtin ] || export FIRSTWORD_CHECKPOINT=$checkpoint
        firstword tensorrt
    else
        echo 'Engines: nothing to build; with FIRSTWORD_FLOW_BACKEND=tensorrt there is.'
    fi
fi
if runs 2; then
    firstword triton init "$checkpoint" "$repository" ${init[@]+"${init[@]}"}
fi
if runs 3; then
    command=("$server" --model-repository "$repository" --http-port "$http_port" --grpc-port "$grpc_port"
        --metrics-port "$metrics_port" --exit-timeout-secs "$((${FIRSTWORD_DRAIN_TIMEOUT_S:-30} + 10))")
    export FIRSTWORD_METRICS_PORT=$engine_metrics_port
    [ "$stop_stage" -gt 3 ] || exec "${command[@]}"
    "${command[@]}" &
    trap 'kill -INT $!; wait' EXIT
    until curl -sf "localhost:$http_port/v2/health/ready"; do
        kill -0 $! || exit 1
        sleep 1
    done
fi
given=(--url "http://localhost:$http_port" --grpc "localhost:$grpc_port"
    --metrics "http://localhost:$engine_metrics_port/metrics" --rates '')
[ -z "$data" ] || given+=(--data "$data")
if runs 4; then
    firstword bench --protocol kserve-http "${given[@]}" --concurrency 1
fi
if runs 5; then
    firstword bench --protocol kserve-grpc "${given[@]}" --concurrency "$concurrency" --table cosyvoice \
        --wav "$output"
fi
if runs 6; then
    [ -n "$data" ] || { echo 'Stage 6 needs --data FILE.jsonl, an object with "text" on each line.' >&2; exit 2; }
    [ "$checkpoint" = builtin ] || export FIRSTWORD_CHECKPOINT=$checkpoint
    firstword batch "$data" --output "$output"
fi
