#!/usr/bin/env bash
# The five published workloads, scaled to a small machine, against `millrace serve` (the grid without a server, as it
# was published), and the audit of the published tables. Writes five reports, their records and one page.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/published.sh [OPTIONS]

  --millrace FILE     the binary (default: build/release/millrace)
  --model MODEL       what is served (default: smollm2)
  --output DIR        where reports go (default: docs/benchmarks/published)
  --records FILE      every request of all points, JSONL (default: build/published.jsonl, begun anew)
  --published DIR     the published tables to audit (default: ../shared/data/published)
  --only A,B          of: grid, sweep, concurrency, rate, dataset, audit, page (default: all)
  --quick             a few requests a point: whether it works, not how fast
TEXT
}

millrace=build/release/millrace
model=smollm2
output=docs/benchmarks/published
records=build/published.jsonl
published=../shared/data/published
only=grid,sweep,concurrency,rate,dataset,audit,page
quick=
while [ $# -gt 0 ]; do
  case "$1" in
    --millrace) millrace=$2; shift 2 ;;
    --model) model=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --records) records=$2; shift 2 ;;
    --published) published=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --quick) quick=1; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; echo "published.sh: there is no option '$1'" >&2; exit 2 ;;
  esac
done

die() { echo "published.sh: $*" >&2; exit 1; }
say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
wants() { tr ',' '\n' <<<"$only" | grep -qx "$1"; }
[ -x "$millrace" ] || die "no $millrace: ./dev build"

scratch=$(mktemp -d)
servers=()
stop_servers() {
  for server in "${servers[@]}"; do
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  done
  servers=()
}
trap 'stop_servers; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# start_server NAME FLAGS...: sets `url`.
start_server() {
  local name=$1; shift
  "$millrace" serve "$model" --port 0 "$@" >"$scratch/$name.log" 2>&1 &
  servers+=($!)
  for _ in $(seq 600); do
    kill -0 "${servers[-1]}" 2>/dev/null || { cat "$scratch/$name.log" >&2; die "the server did not start"; }
    url=$(grep -o 'http://[0-9.:]*' "$scratch/$name.log" | head -n 1 || true)
    [ -n "$url" ] && return
    sleep 0.1
  done
  die "the server was not ready within 60 s"
}

mkdir -p "$output"
wants page && rm -f "$records"
bench() { say "millrace bench $*"; "$millrace" bench "$@" --records "$records"; }
common=(--tokenizer "$model")

# B/I/H/O: 1,4,8 by 32/0/1024, 512/0/512, 1024/0/32, 1024/512/32, 1024/1024/32; here an eighth and less.
if wants grid; then
  batches=1,2,4 lengths=16/0/32,64/0/16,128/0/4,128/64/4,128/128/4
  [ -n "$quick" ] && batches=1,2 lengths=16/0/4,16/16/4
  bench grid --in-process "$model" --framework millrace --b "$batches" --iho "$lengths" ${quick:+--n 4} -o "$output/grid.md"
fi

# guidellm 0.1: prompt_tokens=512,generated_tokens=128, 11 rows of two minutes; here an eighth of the lengths.
if wants sweep; then
  start_server sweep
  size=7 seconds=10 data=prompt_tokens=64,generated_tokens=16
  [ -n "$quick" ] && size=3 seconds=2 data=prompt_tokens=16,generated_tokens=4
  bench sweep --base-url "$url" "${common[@]}" --framework millrace --data "$data" --sweep-size "$size" \
    --max-seconds "$seconds" --max-concurrency 64 -o "$output/sweep.md"
  stop_servers
fi

# ISL:OSL 3000:150, 1000:1000, 500:1000, 2500:100 by 1 to 128; here a twentieth of the lengths, to 8.
if wants concurrency; then
  start_server concurrency
  lengths=150:8,50:50,25:50,125:5 concurrency=1,2,4,8 waves=6
  [ -n "$quick" ] && lengths=16:4 concurrency=1,2 waves=2
  bench concurrency --base-url "$url" "${common[@]}" --framework millrace --isl-osl "$lengths" --max-concurrency "$concurrency" \
    --prompts-per-concurrency "$waves" -o "$output/concurrency.md"
  stop_servers
fi

# 1000 in, 100 out at 1 to 35 requests/s for two minutes and 2000 at once, two engines; here 64 in, 16 out, and the
# second engine is this one without batching.
if wants rate; then
  start_server rate; first=$url
  start_server alone --max-num-seqs 1; second=$url
  rates=1,2,4,inf seconds=15 burst=40 input=64 output_len=16
  [ -n "$quick" ] && rates=4,inf seconds=1 burst=4 input=16 output_len=4
  bench rate --framework millrace="$first" --framework one-at-a-time="$second" "${common[@]}" --request-rate "$rates" \
    --seconds-per-rate "$seconds" --inf-prompts "$burst" --isl "$input" --osl "$output_len" -o "$output/rate.md" --jsonl "$output/rate.jsonl"
  stop_servers
fi

# SGLang's client: random 1024/1024 (which means 1 to 1024), 1000 prompts, 512 at once; here 64/64, 100, 16.
if wants dataset; then
  start_server dataset
  number=60 at_once=8 lengths=64
  [ -n "$quick" ] && number=4 at_once=2 lengths=8
  rm -f "$output/dataset.jsonl"
  bench serve --backend vllm --base-url "$url" "${common[@]}" --framework millrace --report-style sglang --dataset-name random \
    --random-input-len "$lengths" --random-output-len "$lengths" --random-range-ratio 0.0 --range-ratio-mode sglang \
    --num-prompts "$number" --max-concurrency "$at_once" --warmup-requests 10 --output-file "$output/dataset.jsonl" -o "$output/dataset.txt"
  stop_servers
fi

if wants audit; then
  for table in grid.md sweep.md concurrency.md rate.jsonl; do
    [ -e "$published/$table" ] || { echo "published.sh: no $published/$table: not audited" >&2; continue; }
    say "millrace bench import $table"
    (cd "$published" && "$OLDPWD/$millrace" bench import "$table") >"$output/audit_${table%.*}.md"
  done
fi

if wants page; then
  say "millrace bench report --shape html"
  "$millrace" bench report --in "$records" --shape html --title "The five published workloads, scaled" -o "$output/index.html"
fi
