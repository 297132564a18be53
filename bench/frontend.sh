#!/usr/bin/env bash
# Measures the front end of `millrace serve` alone: with the null engine, which takes no time.
# The server has one core, the client (frontend_load) another: the figures are per server core, and the client's
# work is not in them; with --share, both share both cores. Nothing else should run meanwhile; `server_cores_used`
# tells whether something did.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/frontend.sh [OPTIONS] [-- FLAGS OF millrace serve]

  --server FILE       the millrace binary (default: build/release/millrace)
  --client FILE       the load generator (default: build/release/frontend_load)
  --server-core LIST  where the server runs (default: 0); the first of them measures the limit
  --client-core N     where the client runs (default: 1)
  --scenario A,B      of: streams, requests, refusals, first_token, idle, open_streams and open_streams_uds
                      (over a Unix socket) (default: all)
  --seconds N         of each measurement (default: 5)
  --share             server and client share both cores: an I/O thread for each, and a client that looks at its open
                      streams every 0.3 ms instead of spinning
  --rate R            tokens/s of each of the open streams (default: 20)
  --open-streams N,M  how many of them, in turn, each time of a fresh server (default: 10000)
  --json FILE         adds one JSON object for each measurement
  --no-limit          without the machine's limit: the same bytes from a server that does nothing else
  --client-flags TEXT more flags for frontend_load, such as "--chat --load 0.3"
TEXT
}

server=build/release/millrace
client=build/release/frontend_load
server_core=0
client_core=1
scenarios=streams,requests,refusals,first_token,idle,open_streams,open_streams_uds
seconds=5
rate=20
open_streams=10000
json=
limit=--limit
share=
client_flags=
while [ $# -gt 0 ]; do
  case "$1" in
    --server) server=$2; shift 2 ;;
    --client) client=$2; shift 2 ;;
    --server-core) server_core=$2; shift 2 ;;
    --client-core) client_core=$2; shift 2 ;;
    --scenario) scenarios=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --rate) rate=$2; shift 2 ;;
    --open-streams) open_streams=$2; shift 2 ;;
    --json) json=$2; shift 2 ;;
    --no-limit) limit=; shift ;;
    --share) share=1; shift ;;
    --client-flags) client_flags=$2; shift 2 ;;
    --) shift; break ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; echo "frontend.sh: there is no option '$1'" >&2; exit 2 ;;
  esac
done
server_flags=("$@")
if [ -n "$share" ]; then
  server_core=$server_core,$client_core
  client_core=$server_core
  server_flags=(--io-threads 2 "${server_flags[@]}")
  client_flags="--open-streams-rest-us 300 $client_flags"
fi
readonly sequences=16384 # that run at once: more than any scenario has open

die() { echo "frontend.sh: $*" >&2; exit 1; }
[ -x "$server" ] || die "no $server: ./dev build"
[ -x "$client" ] || die "no $client: cmake --build build/release --target frontend_load"
ulimit -n "$(ulimit -Hn)"

scratch=$(mktemp -d)
server_pid=
stop_server() {
  [ -z "$server_pid" ] && return
  kill "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
trap 'stop_server; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# is_healthy FLAG VALUE: asks the server that a client reaches by these flags.
is_healthy() {
  python3 - "$@" 2>/dev/null <<'PYTHON'
import socket, sys
flag, value = sys.argv[1:]
peer = socket.socket(socket.AF_UNIX if flag == "--uds" else socket.AF_INET)
peer.settimeout(5)
peer.connect(value if flag == "--uds" else ("127.0.0.1", int(value)))
peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
sys.exit(0 if b" 200 " in peer.recv(64) else 1)
PYTHON
}

# start_server TOKENS_PER_SECOND TRANSPORT: the null engine at this pace a stream, on tcp or uds; waits until it is
# healthy.
start_server() {
  local listen
  if [ "$2" = uds ]; then
    reach=(--uds "$scratch/server.sock")
    listen=("${reach[@]}")
  else
    reach=(--port "$(free_port)")
    listen=(--host 127.0.0.1 "${reach[@]}")
  fi
  taskset -c "$server_core" "$server" serve --engine null --null-tokens-per-second "$1" \
    --max-num-seqs "$sequences" --max-num-live-seqs "$sequences" "${listen[@]}" "${server_flags[@]}" >"$scratch/server.log" 2>&1 &
  server_pid=$!
  for _ in $(seq 300); do
    kill -0 "$server_pid" 2>/dev/null || { cat "$scratch/server.log" >&2; die "the server did not start"; }
    is_healthy "${reach[@]}" && return
    sleep 0.1
  done
  die "the server was not healthy within 30 s"
}

# measure SCENARIOS FLAGS...
measure() {
  local names=$1; shift
  # shellcheck disable=SC2086 # several words on purpose
  taskset -c "$client_core" "$client" "${reach[@]}" --pid "$server_pid" --scenario "$names" --seconds "$seconds" \
    --server-core "${server_core%%,*}" ${json:+--json "$json"} $client_flags "$@" || failed=1
}

# measure_open_streams TRANSPORT: the machine's limit is measured with the last of the numbers.
measure_open_streams() {
  local number limit_flag
  for number in ${open_streams//,/ }; do
    if [ "$number" = "${open_streams##*,}" ]; then limit_flag=$limit; else limit_flag=; fi
    start_server "$rate" "$1"
    measure open_streams --open-streams-rate "$rate" --open-streams "$number" $limit_flag
    stop_server
  done
}

has_scenario() { tr ',' '\n' <<<"$scenarios" | grep -qx "$1"; }

failed=0
unpaced=$(tr ',' '\n' <<<"$scenarios" | grep -v '^open_streams' | paste -sd, || true)
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); server on core $server_core, client on core $client_core"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
if [ -n "$unpaced" ]; then
  start_server 1000000000 tcp # in effect, at once
  measure "$unpaced" $limit
  stop_server
fi
if has_scenario open_streams; then measure_open_streams tcp; fi
if has_scenario open_streams_uds; then measure_open_streams uds; fi
exit "$failed"
