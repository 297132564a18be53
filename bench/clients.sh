#!/usr/bin/env bash
# The same load, measured by the field's own clients and by `millrace bench serve`, in turn: first on a server whose times
# are known (`millrace bench mock`), then on `millrace serve` with the default model. One table for each load.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/clients.sh --tools DIR [OPTIONS] [-- FLAGS OF millrace serve]

  --tools DIR        the other clients' environments: tests/clients/bench_tools.sh --install DIR makes them
  --server FILE      the millrace binary (default: build/release/millrace)
  --only A,B         of: vllm,sglang,guidellm,aiperf,millrace (default: all)
  --loads A,B        of: mock_closed,mock_open,serve_closed,serve_open (default: all)
  --rounds N         each client measures each load so often, in turn (default: 2)
  --tokenizer DIR    with tokenizer.json, tokenizer_config.json and config.json (default:
                     ../shared/data/tokenizers/smollm2, with a config.json added in a copy)
  --out DIR          where the clients' output goes (default: build/clients)

Closed loops keep 4 requests under way at the mock and 1 at the model; open loops are Poisson, 10/s and 1/s.
TEXT
}

die() { echo "clients.sh: $*" >&2; exit 1; }

server=build/release/millrace
tools=
out=build/clients
only=vllm,sglang,guidellm,aiperf,millrace
loads=mock_closed,mock_open,serve_closed,serve_open
rounds=2
tokenizer=
while [ $# -gt 0 ]; do
  case "$1" in
    --tools) tools=$(realpath "$2"); shift 2 ;;
    --server) server=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --loads) loads=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --tokenizer) tokenizer=$(realpath "$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --) shift; break ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "there is no option '$1'" ;;
  esac
done
serve_flags=("$@")
[ -n "$tools" ] || { usage >&2; die "--tools is missing"; }
[ -x "$server" ] || die "no $server: ./dev build"
server=$(realpath "$server")

rm -rf "$out"
mkdir -p "$out/runs"
out=$(realpath "$out")
# aiperf's workers look for a tokenizer in Hugging Face's cache only: it is laid out as one.
cached=$out/hf/hub/models--local--tokenizer
mkdir -p "$cached/refs" "$cached/snapshots"
printf 1 >"$cached/refs/main"
cp -r --no-preserve=mode "${tokenizer:-../shared/data/tokenizers/smollm2}" "$cached/snapshots/1" ||
  die "no ../shared/data/tokenizers/smollm2: --tokenizer DIR"
tokenizer=$cached/snapshots/1
[ -e "$tokenizer/config.json" ] || echo '{"model_type": "llama"}' >"$tokenizer/config.json"
export HF_HUB_OFFLINE=1 OPENAI_API_KEY=none

server_pid=
stop_server() {
  [ -z "$server_pid" ] && return
  kill "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
trap stop_server EXIT
trap 'exit 130' INT TERM

readonly ttft_ms=50 itl_ms=10 input_tokens=64 output_tokens=16

# start_server mock|serve: sets url
start_server() {
  local log=$out/$1.log
  : >"$log" # read below before the server may have opened it
  if [ "$1" = mock ]; then
    "$server" bench mock --port 0 --ttft-ms "$ttft_ms" --itl-ms "$itl_ms" --model smollm2 >"$log" 2>&1 &
  else
    "$server" serve --served-model-name smollm2 --port 0 "${serve_flags[@]}" >"$log" 2>&1 &
  fi
  server_pid=$!
  for _ in $(seq 600); do
    url=$(sed -nE 's/.* on (http:[^ ,;]*).*/\1/p' "$log" | head -n 1)
    [ -n "$url" ] && return
    kill -0 "$server_pid" 2>/dev/null || { cat "$log" >&2; die "the server did not start"; }
    sleep 0.1
  done
  die "the server was not ready within 60 s"
}

# Of three of the clients, which spell them alike; "$concurrency" or "$rate" is set, not both.
load_flags() {
  if [ -n "$concurrency" ]; then echo "--max-concurrency $concurrency"; else echo "--request-rate $rate"; fi
}

run_vllm() {
  # shellcheck disable=SC2046 # several words on purpose
  "$tools/vllm/bin/vllm" bench serve --backend openai --base-url "$url" --model smollm2 --tokenizer "$tokenizer" \
    --dataset-name random --random-input-len "$input_tokens" --random-output-len "$output_tokens" --ignore-eos \
    --num-prompts "$requests" --seed "$round" $(load_flags) --num-warmups 1 --percentile-metrics ttft,tpot,itl,e2el \
    --save-result --result-dir . --result-filename result.json
}

run_millrace() {
  # shellcheck disable=SC2046
  "$server" bench serve --backend openai --base-url "$url" --model smollm2 --dataset-name random \
    --random-input-len "$input_tokens" --random-output-len "$output_tokens" --num-prompts "$requests" \
    --seed "$round" $(load_flags) --num-warmups 1 --no-calibration --save-result --result-filename result.json \
    --records records.jsonl
}

run_sglang() {
  # shellcheck disable=SC2046
  "$tools/sglang/bin/python" "$tools/sglang/source/sglang/bench_serving.py" --backend vllm --base-url "$url" \
    --model smollm2 --tokenizer "$tokenizer" --dataset-name random-ids --random-input-len "$input_tokens" \
    --random-output-len "$output_tokens" --random-range-ratio 1.0 --num-prompts "$requests" --seed "$round" \
    $(load_flags) --output-file result.jsonl
}

run_guidellm() {
  local profile=kind=poisson,rate=$rate
  [ -n "$concurrency" ] && profile=kind=concurrent,streams=$concurrency
  "$tools/guidellm/bin/guidellm" run \
    --backend "kind=openai_http,target=$url,model=smollm2,request_format=/v1/completions" --profile "$profile" \
    --constraint "kind=max_requests,count=$requests" --seed "kind=static,value=$round" \
    --tokenizer "kind=hf_auto,model=$tokenizer" --disable-progress \
    --data "kind=synthetic_text,prompt_tokens=$input_tokens,output_tokens=$output_tokens"
}

run_aiperf() {
  local load=(--request-rate "$rate" --arrival-pattern poisson)
  [ -n "$concurrency" ] && load=(--concurrency "$concurrency")
  HF_HOME="$out/hf" "$tools/aiperf/bin/aiperf" profile -m smollm2 --url "$url" --endpoint-type completions --streaming \
    --tokenizer local/tokenizer --synthetic-input-tokens-mean "$input_tokens" --output-tokens-mean "$output_tokens" \
    --request-count "$requests" "${load[@]}" --random-seed "$round" --warmup-request-count 1 --use-server-token-count \
    --extra-inputs ignore_eos:true --ui none --artifact-dir artifacts
}

# measure LOAD: every client, as many rounds as asked
measure() {
  for round in $(seq "$rounds"); do
    for tool in ${only//,/ }; do
      [ "$tool" = millrace ] || [ -d "$tools/$tool" ] || { echo "$tool is not in $tools: left out" >&2; continue; }
      local folder=$out/runs/$1.$round.$tool
      mkdir "$folder"
      (cd "$folder" && "run_$tool") >"$folder/log" 2>&1 || { echo "$1, $tool FAILED: see $folder/log" >&2; failed=1; }
    done
  done
}

failed=0
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); load before: $(cut -d' ' -f1-3 /proc/loadavg)"
running=
for load in ${loads//,/ }; do
  case "$load" in
    mock_closed) concurrency=4 rate='' requests=40 ;;
    mock_open) concurrency='' rate=10 requests=60 ;;
    serve_closed) concurrency=1 rate='' requests=20 ;;
    serve_open) concurrency='' rate=1 requests=20 ;;
    *) usage >&2; die "there is no load '$load'" ;;
  esac
  if [ "$running" != "${load%_*}" ]; then
    stop_server
    running=${load%_*}
    start_server "$running"
  fi
  measure "$load"
done
stop_server
echo "times in ms; load after: $(cut -d' ' -f1-3 /proc/loadavg)"
python3 bench/clients_table.py "$out/runs" "mock_closed=$ttft_ms,$itl_ms,$output_tokens,4" \
  "mock_open=$ttft_ms,$itl_ms,$output_tokens"
exit "$failed"
