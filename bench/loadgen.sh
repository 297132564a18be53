#!/usr/bin/env bash
# The limits of the load generator itself: `millrace bench serve` on one core against `millrace bench mock` on another.
# What a second has room for, then what is added to latencies at a tenth of that. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/loadgen.sh [OPTIONS]

  --millrace FILE     the binary (default: build/release/millrace)
  --mock-core LIST    where the mock runs (default: 0)
  --client-core LIST  where the client runs, with the thread that writes its requests (default: 1)
  --connections N     of the closed loops (default: 64)
  --seconds N         of each measurement (default: 5)
  --scenario A,B      of: requests, streams, request_latency, chunk_latency (default: all)
  --requests N        of requests; up to 100,000 are all worded before the clock (default: 100000)
  --rate R            of request_latency, in requests/s (default: 5000)
  --streams N         of chunk_latency, each 1,000 tokens/s, every one a packet of its own (default: 20)
TEXT
}

die() { echo "loadgen.sh: $*" >&2; exit 1; }

millrace=build/release/millrace
mock_core=0
client_core=1
connections=64
seconds=5
scenarios=requests,streams,request_latency,chunk_latency
requests=100000
rate=5000
streams=20
while [ $# -gt 0 ]; do
  case "$1" in
    --millrace) millrace=$2; shift 2 ;;
    --mock-core) mock_core=$2; shift 2 ;;
    --client-core) client_core=$2; shift 2 ;;
    --connections) connections=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --scenario) scenarios=$2; shift 2 ;;
    --requests) requests=$2; shift 2 ;;
    --rate) rate=$2; shift 2 ;;
    --streams) streams=$2; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "there is no option '$1'" ;;
  esac
done
[ -x "$millrace" ] || die "no $millrace: ./dev build"
ulimit -n "$(ulimit -Hn)"

scratch=$(mktemp -d)
mock_pid=
stop_mock() {
  [ -z "$mock_pid" ] && return
  kill "$mock_pid" 2>/dev/null || true
  wait "$mock_pid" 2>/dev/null || true
  mock_pid=
}
trap 'stop_mock; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# start_mock FLAGS...
start_mock() {
  stop_mock
  : >"$scratch/mock.log" # read below before the mock may have opened it
  taskset -c "$mock_core" "$millrace" bench mock --port 0 "$@" >"$scratch/mock.log" 2>&1 &
  mock_pid=$!
  for _ in $(seq 100); do
    url=$(sed -nE 's/.* on (http:[^ ,;]*).*/\1/p' "$scratch/mock.log")
    [ -n "$url" ] && return
    kill -0 "$mock_pid" 2>/dev/null || { cat "$scratch/mock.log" >&2; die "the mock did not start"; }
    sleep 0.1
  done
  die "the mock was not ready within 10 s"
}

# measure NAME TTFT_MS ITL_MS FLAGS...: loads the mock, and says what came out and what each thread had of its core.
measure() {
  local name=$1 ttft=$2 itl=$3; shift 3
  start_mock --ttft-ms "$ttft" --itl-ms "$itl"
  rm -f "$scratch/result.json" "$scratch/records.jsonl"
  python3 - "$name" "$mock_pid" "$scratch/result.json" "$scratch/records.jsonl" "$ttft" "$itl" \
    taskset -c "$client_core" "$millrace" bench serve --base-url "$url" --input-len 16 --max-seconds "$seconds" \
    --num-warmups 64 --no-calibration --no-server-metrics --save-result \
    --result-dir "$scratch" --result-filename result.json "$@" <<'PYTHON' || failed=1
import json, os, pathlib, subprocess, sys, time
name, mock_pid, result_path, records_path, ttft_ms, itl_ms, *command = sys.argv[1:]
TICK = os.sysconf("SC_CLK_TCK")

def cpu_by_thread(pid):
    """Seconds, by the thread's name; threads of one name together."""
    seconds = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            text = task.read_text()
        except OSError:
            continue
        thread = text[text.index("(") + 1:text.rindex(")")]
        fields = text[text.rindex(")") + 2:].split()
        seconds[thread] = seconds.get(thread, 0.0) + (int(fields[11]) + int(fields[12])) / TICK
    return seconds

client = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
load_seconds, mock_before, mock_after = 0.0, {}, {}
while client.poll() is None:
    seconds = sum(value for thread, value in cpu_by_thread(client.pid).items() if thread.startswith("load-")
                  and thread != "load-build")
    mock_after = cpu_by_thread(mock_pid)
    if max(load_seconds, seconds) < 0.03:  # until then requests are worded, for which the mock counts tokens
        mock_before = mock_after
    load_seconds = max(load_seconds, seconds)
    # Reading /proc takes some milliseconds of a core, which would be in the latencies.
    time.sleep(1.0 if "latency" in name else 0.05)
words = client.communicate()[1]
if client.returncode != 0:
    sys.exit(f"{name}: millrace bench serve ended with {client.returncode}: {words}")
result = json.loads(pathlib.Path(result_path).read_text())
duration = result["duration"]
print(f"\n{name}: {result['completed']} requests in {duration:.2f} s, {result.get('failed', 0)} failed: "
      f"{result['request_throughput']:,.0f} requests/s, {result['output_throughput']:,.0f} tokens/s")

def line(label, values):
    """values: ns"""
    if values:
        values.sort()
        at = lambda share: values[round(share * (len(values) - 1))] / 1000
        print(f"  {label}, us: p50 {at(0.5):.0f}, p90 {at(0.9):.0f}, p99 {at(0.99):.0f}, p99.9 {at(0.999):.0f}")

records = pathlib.Path(records_path)
if records.exists():
    requests = [one for one in map(json.loads, records.read_text().splitlines())
                if one["type"] == "request" and one["phase"] == "measured" and one["outcome"] == "completed"]
    ttft_ns, itl_ns = float(ttft_ms) * 1e6, float(itl_ms) * 1e6
    if "--request-rate" in command:
        line("sent after its time", [one["sent_ns"] - one["scheduled_ns"] for one in requests])
    line("TTFT from the sending, above the mock's",
         [one["first_token_ns"] - one["sent_ns"] - ttft_ns for one in requests])
    if itl_ns > 0:  # one token a chunk, as the mock sends them
        line("ITL, away from the mock's",
             [abs(gap - itl_ns) for one in requests for gap, tokens in one["chunks"][1:] if tokens == 1])
mock_seconds = sum(mock_after.values()) - sum(mock_before.values())
print(f"  of a core: client's sending thread {load_seconds / duration:.0%}, mock {mock_seconds / duration:.0%}")
for text in words.splitlines():
    if "warn" in text or "invalid" in text:
        print("  " + text.strip())
PYTHON
}

failed=0
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); mock on core $mock_core, client on core $client_core"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
for scenario in ${scenarios//,/ }; do
  case "$scenario" in
    requests)
      measure requests 0 0 --disable-stream --output-len 1 --max-concurrency "$connections" --num-prompts "$requests" ;;
    streams) measure streams 0 0 --output-len 512 --max-concurrency "$connections" --num-prompts $((seconds * 8000)) ;;
    request_latency)
      measure request_latency 1 0 --output-len 1 --request-rate "$rate" --burstiness inf --num-prompts $((rate * seconds)) \
        --records "$scratch/records.jsonl" ;;
    chunk_latency)
      measure chunk_latency 1 1 --output-len 1000 --max-concurrency "$streams" --num-prompts $((streams * seconds)) \
        --records "$scratch/records.jsonl" ;;
    *) usage >&2; die "there is no scenario '$scenario'" ;;
  esac
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
exit "$failed"
