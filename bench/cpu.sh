#!/usr/bin/env bash
# The CPU engine beside its rivals: every one that is installed, in turn, on the same weights. Writes docs/benchmarks/cpu.md.
# Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/cpu.sh [OPTIONS]

  --millrace FILE        the binary (default: build/release/millrace)
  --llama-cpp DIR        a build of llama.cpp, with llama-bench, llama-batched-bench, llama-quantize and llama-server
  --ik-llama-cpp DIR     a build of ik_llama.cpp, with the same programs but the server
  --openvino VENV        a virtual environment with openvino-genai, optimum-intel and nncf
  --vllm VENV            a virtual environment with vllm (for CPUs)
  --vllm-cpp DIR         a build of vllm.cpp, with vllm-bench
  --convert SOURCE       llama.cpp's source, for convert_hf_to_gguf.py (default: the folder above --llama-cpp's build)
  --convert-python FILE  Python with torch and transformers for it (default: that of --vllm, else of --openvino)
  --model DIR            a folder with config.json, run with random weights (default: configs/Qwen2-0.5B)
  --tokenizer DIR        of that model (default: ../shared/data/tokenizers/qwen2.5)
  --formats A,B          of: bf16,int8,w8a8,int4,uint4 (default: all of these); w8a8, millrace's faster int8, stands beside the others' int8;
                         uint4, a GPTQ checkpoint (of SmolLM2 its own file) as it is, beside their int4, and vLLM's reading of the same files;
                         and llama-quantize's q4_0, q4_k_m, q5_k_m, q6_k, q8_0, iq4_nl, ...: millrace and llama.cpp on the same GGUF file
  --only A,B             of: qwen,smollm2,serving,grid (default: all)
  --batch-size A,B       of decodes and of the grid (default: 1,4,8)
  --context-len N        of one more decode, of ours alone (default: 8192)
  --rounds N             (default: 3)
  --threads N            of every engine (default: one a core)
  --work DIR             converted models and all output are kept here (default: build/cpu)
  --output FILE          (default: docs/benchmarks/cpu.md)

What is missing is named as missing. How to get each rival: docs/guides/benchmarks.md.
TEXT
}

die() { echo "cpu.sh: $*" >&2; exit 1; }
say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

millrace=build/release/millrace
llama='' ik_llama='' openvino='' vllm='' vllm_cpp='' convert='' convert_python=''
model=configs/Qwen2-0.5B
tokenizer=../shared/data/tokenizers/qwen2.5
formats=bf16,int8,w8a8,int4,uint4
only=qwen,smollm2,serving,grid
batch_sizes=1,4,8
context_len=8192
rounds=3
threads=$(nproc)
work=build/cpu
output=docs/benchmarks/cpu.md
command="bench/cpu.sh $(sed -E 's#(^| )/[^ ]*#\1PATH#g' <<<"$*")"  # a report names no path of its machine
while [ $# -gt 0 ]; do
  case "$1" in
    --millrace) millrace=$2; shift 2 ;;
    --llama-cpp) llama=$(realpath "$2"); shift 2 ;;
    --ik-llama-cpp) ik_llama=$(realpath "$2"); shift 2 ;;
    --openvino) openvino=$(realpath "$2"); shift 2 ;;
    --vllm) vllm=$(realpath "$2"); shift 2 ;;
    --vllm-cpp) vllm_cpp=$(realpath "$2"); shift 2 ;;
    --convert) convert=$(realpath "$2"); shift 2 ;;
    --convert-python) convert_python=$2; shift 2 ;;
    --model) model=$2; shift 2 ;;
    --tokenizer) tokenizer=$2; shift 2 ;;
    --formats) formats=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --batch-size) batch_sizes=$2; shift 2 ;;
    --context-len) context_len=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; echo "cpu.sh: there is no option '$1'" >&2; exit 2 ;;
  esac
done
[ -x "$millrace" ] || die "no $millrace: ./dev build"
[ -e "$model/config.json" ] || die "no $model/config.json: --model DIR"
[ -e "$tokenizer/tokenizer.json" ] || die "no $tokenizer/tokenizer.json: --tokenizer DIR"
wants() { tr ',' '\n' <<<"$only" | grep -qx "$1"; }
# The formats of other engines' files, and those of files that are read as they are.
rival_formats() { tr ',' '\n' <<<"$formats" | sed 's/^w8a8$/int8/; s/^uint4$/int4/' | grep -Ev '^i?q[0-9]' | sort -u; }
file_formats() { tr ',' '\n' <<<"$formats" | grep -E '^i?q[0-9]' || true; }
has_format() { rival_formats | grep -qx "$1"; }

mkdir -p "$work"
work=$(realpath "$work")
millrace=$(realpath "$millrace")
name=$(basename "$model")
checkpoint=$work/$name
log=$work/log.txt
: >"$log"
smollm2=${MILLRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace}/smollm2
smollm2_gguf=$(find "$smollm2" -name '*.gguf' 2>/dev/null | head -n 1 || true)
[ -n "$llama" ] && [ -z "$convert" ] && convert=$(dirname "$llama")
if [ -z "$convert_python" ] && [ -n "$vllm$openvino" ]; then convert_python=${vllm:-$openvino}/bin/python; fi

# program DIR NAME: where a build has it
program() { if [ -x "$1/bin/$2" ]; then echo "$1/bin/$2"; else echo "$1/$2"; fi; }

# make FILE COMMAND...: runs the command where the file is missing; it may be made in a form {} that is renamed at the end.
make_file() {
  local file=$1; shift
  [ -e "$file" ] && return
  say "making $(basename "$file")"
  rm -rf "$file.partial"
  "${@//\{\}/$file.partial}" >>"$log" 2>&1 || { tail -n 5 "$log" >&2; echo "cpu.sh: $(basename "$file") could not be made: left out" >&2; return 1; }
  mv "$file.partial" "$file"
}

prepare_ggufs() {
  [ -n "$llama$ik_llama" ] || return 0
  local quantize format
  quantize=$(program "${llama:-$ik_llama}" llama-quantize)
  if wants qwen || wants grid; then
    [ -e "$work/$name.bf16.gguf" ] || [ -n "$convert_python" ] || { echo "cpu.sh: no --convert-python: no $name for llama.cpp" >&2; return 0; }
    make_file "$work/$name.bf16.gguf" "$convert_python" "$convert/convert_hf_to_gguf.py" "$checkpoint" --outtype bf16 \
      --outfile '{}' || return 0
  fi
  if wants qwen; then
    has_format int8 && { make_file "$work/$name.int8.gguf" "$quantize" --allow-requantize "$work/$name.bf16.gguf" '{}' Q8_0 || true; }
    has_format int4 && { make_file "$work/$name.int4.gguf" "$quantize" --allow-requantize "$work/$name.bf16.gguf" '{}' Q4_0 || true; }
    for format in $(file_formats); do
      make_file "$work/$name.$format.gguf" "$quantize" "$work/$name.bf16.gguf" '{}' "${format^^}" || true
    done
  fi
  if wants smollm2 && [ -n "$smollm2_gguf" ]; then
    has_format bf16 && { make_file "$work/smollm2.bf16.gguf" "$quantize" --allow-requantize "$smollm2_gguf" '{}' BF16 || true; }
    has_format int8 && { make_file "$work/smollm2.int8.gguf" "$quantize" --allow-requantize "$smollm2_gguf" '{}' Q8_0 || true; }
    ln -sf "$smollm2_gguf" "$work/smollm2.int4.gguf" # Q4_1, as it is
    for format in $(file_formats); do
      make_file "$work/smollm2.$format.gguf" "$quantize" --allow-requantize "$smollm2_gguf" '{}' "${format^^}" || true
    done
  fi
  return 0
}

prepare_openvino() {
  [ -n "$openvino" ] && wants qwen || return 0
  local format weights
  for format in $(rival_formats); do
    weights=$format
    [ "$format" = bf16 ] && weights=fp16 # computed in bfloat16 where the processor has it
    make_file "$work/$name.$format.openvino" "$openvino/bin/optimum-cli" export openvino --model "$checkpoint" \
      --task text-generation-with-past --weight-format "$weights" '{}' || true
  done
}

# It reads no Qwen2 but as a Llama, and of the formats of safetensors bfloat16 alone.
prepare_vllm_cpp() {
  [ -n "$vllm_cpp" ] && wants qwen && has_format bf16 || return 0
  make_file "$work/$name.bf16.vllm-cpp" python3 -B bench/cpu/vllm_cpp_speed.py --as-llama "$checkpoint" '{}' || true
}

if [ ! -e "$checkpoint/model.safetensors" ]; then
  say "writing $name with random weights"
  python3 bench/cpu/random_checkpoint.py "$model" "$tokenizer" "$checkpoint"
fi
if tr ',' '\n' <<<"$formats" | grep -qx uint4 && [ ! -e "$checkpoint.gptq/model.safetensors" ]; then
  say "writing $name in GPTQ's 4 bits with random weights"
  python3 bench/cpu/random_checkpoint.py "$model" "$tokenizer" "$checkpoint.gptq" --gptq
fi
prepare_ggufs
prepare_openvino
prepare_vllm_cpp

say "measuring: log in $log"
commit=$(git log -1 --format=%h 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ' with changes')
machine="$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(sed -nE 's/^MemTotal: +([0-9]+) kB/\1/p' /proc/meminfo | awk '{printf "%.0f GiB", $1 / 1048576}')"
load=$(cut -d' ' -f1-3 /proc/loadavg)
# As arguments: what wraps python3 on some machines has variables of these names in its environment.
python3 - "$work/plan.json" name="$name" checkpoint="$checkpoint" work="$work" log="$log" millrace="$millrace" llama="$llama" \
  ik_llama="$ik_llama" openvino="$openvino" vllm="$vllm" vllm_cpp="$vllm_cpp" formats="$formats" only="$only" batch_sizes="$batch_sizes" \
  context_len="$context_len" rounds="$rounds" threads="$threads" command="$command" commit="$commit" machine="$machine" \
  load="$load" llama_server="${llama:+$(program "$llama" llama-server)}" <<'PYTHON'
import json, pathlib, re, sys

env = dict(argument.split("=", 1) for argument in sys.argv[2:])
work, name, checkpoint, threads = pathlib.Path(env["work"]), env["name"], env["checkpoint"], int(env["threads"])
formats, only = env["formats"].split(","), env["only"].split(",")
commands = {"millrace": f"millrace bench engine DIR --dtype bfloat16 --quantization F --batch-size B --threads {threads}"}

def present(pattern):
    paths = {name: work / pattern.format({"w8a8": "int8", "uint4": "int4"}.get(name, name)) for name in formats}
    return {name: str(path) for name, path in paths.items() if path.exists()}

def ours(model, plain, others={}):
    """What millrace reads for each format; those of llama-quantize are files."""
    return {name: str(work / f"{model}.{name}.gguf") if re.match("i?q[0-9]", name) else others.get(name, plain) for name in formats}

def llamas(model):
    rivals = []
    for rival, build, flags, batched_flags in (("llama.cpp", env["llama"], ["-fa", "1"], ["-fa", "1"]),
                                               ("ik_llama.cpp", env["ik_llama"], ["-fa", "1", "-rtr", "1"], ["-fa", "1", "-rtr"])):
        if build:
            rivals.append({"name": rival, "kind": "llama", "build": build, "flags": flags,
                           "batched_flags": batched_flags, "models": present(model + ".{}.gguf")})
            commands[rival] = f"llama-bench -m GGUF -t {threads} -p P -n N {' '.join(flags)}; llama-batched-bench -npp 16 -ntg N -npl B {' '.join(batched_flags)}"
    return rivals

def cases(context_len):
    result = []
    for name in formats:
        result += [{"phase": "decode", "batch_size": int(size), "context_len": 0, "num_tokens": 64, "format": name}
                   for size in env["batch_sizes"].split(",")]
        result.append({"phase": "prefill", "batch_size": 1, "context_len": 0, "num_tokens": 512, "format": name})
        if context_len:
            result.append({"phase": "decode", "batch_size": 1, "context_len": context_len, "num_tokens": 64, "format": name})
    return result

models = []
if "qwen" in only:
    rivals = llamas(name)
    if env["openvino"]:
        rivals.append({"name": "OpenVINO", "kind": "worker", "python": env["openvino"] + "/bin/python", "program": "openvino_speed.py",
                       "models": present(name + ".{}.openvino")})
        commands["OpenVINO"] = "bench/cpu/openvino_speed.py: ContinuousBatchingPipeline, fp16, int8 and int4 as optimum-cli exports them"
    if env["vllm"]:
        rivals.append({"name": "vLLM", "kind": "worker", "python": env["vllm"] + "/bin/python", "program": "vllm_speed.py",
                       "models": {"bf16": checkpoint, "uint4": checkpoint + ".gptq"}})
        commands["vLLM"] = "bench/cpu/vllm_speed.py: LLM(dtype='bfloat16', enable_prefix_caching=False)"
    if env["vllm_cpp"]:
        rivals.append({"name": "vllm.cpp", "kind": "vllm.cpp", "build": env["vllm_cpp"], "models": present(name + ".{}.vllm-cpp")})
        commands["vllm.cpp"] = (f"VLLM_CPP_CPU_THREADS={threads} vllm-bench --model DIR --num-prompts B --concurrency B --input-len P "
                                "--output-len N; it has no Qwen2, so DIR names the same weights a Llama, without the biases of q, k and v")
    models.append({"name": f"{name}, random weights", "ours": ours(name, checkpoint, {"uint4": checkpoint + ".gptq"}),
                   "rivals": rivals, "cases": cases(int(env["context_len"]))})
if "smollm2" in only:
    models.append({"name": "SmolLM2-135M, the default model (it fits in the caches of some machines)",
                   "ours": ours("smollm2", "smollm2"), "rivals": llamas("smollm2"), "cases": cases(0)})
MAX_MODEL_LEN = 2048

def servers(num_streams, caches_prefixes):
    """Ours and vLLM's."""
    result = [{"name": "millrace", "command": [env["millrace"], "serve", checkpoint, "--port", "{port}", "--dtype", "bfloat16",
                                               "--max-model-len", str(MAX_MODEL_LEN), "--threads", str(threads)]}]
    if env["vllm"]:
        result.append({"name": "vLLM", "environment": {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}"},
                       "command": [env["vllm"] + "/bin/vllm", "serve", checkpoint, "--port", "{port}", "--dtype", "bfloat16",
                                   "--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", str(num_streams),
                                   *([] if caches_prefixes else ["--no-enable-prefix-caching"]), "--gpu-memory-utilization", "0.4"]})
    return result

def llama_server(num_streams):
    gguf = work / f"{name}.bf16.gguf"
    if not env["llama_server"] or not gguf.exists():
        return []
    return [{"name": "llama.cpp", "command": [env["llama_server"], "-m", str(gguf), "--host", "127.0.0.1", "--port", "{port}", "-t", str(threads),
                                              "-np", str(num_streams), "-c", str(num_streams * MAX_MODEL_LEN), "-fa", "on"]}]

def note_commands(load, words):
    for server in load["servers"]:
        text = " ".join(server["command"])
        for path, short in ((str(work / f"{name}.bf16.gguf"), "GGUF"), (checkpoint, "DIR"), (env["millrace"], "millrace"),
                            (env["llama_server"], "llama-server")):
            text = text.replace(path, short) if path else text
        commands[f"{server['name']}'s server{words}"] = text

serving = grid = None
if "serving" in only:
    serving = {"input_len": 256, "output_len": 64, "streams": 16, "num_prompts": 64, "tokenizer": checkpoint,
               "servers": servers(16, caches_prefixes=False)}
    note_commands(serving, "")
if "grid" in only:
    sizes = [int(size) for size in env["batch_sizes"].split(",")]
    # Published: 32/0/1024, 512/0/512, 1024/0/32, 1024/512/32 and 1024/1024/32; here a quarter of the prompts and fewer tokens out.
    grid = {"batch_sizes": sizes, "lengths": [[32, 0, 64], [128, 0, 32], [256, 0, 8], [256, 128, 8], [256, 256, 8]],
            "tokenizer": checkpoint, "servers": servers(max(sizes), caches_prefixes=True) + llama_server(max(sizes))}
    note_commands(grid, ", grid")
facts = {"command": env["command"], "rounds": int(env["rounds"]), "threads": threads, "machine": env["machine"], "commit": env["commit"],
         "load": env["load"], "commands": {key: text.replace(env["vllm"] or "\0", "VENV") for key, text in commands.items()},
         "serving": f"{name}, bfloat16: 16 streams at once, prompts of 256 tokens, answers of 64, by `millrace bench serve --max-concurrency 16`.",
         "grid": f"{name}, bfloat16: B requests at once, prompts of I tokens of which the cache holds H, answers of O, by `millrace bench grid`; "
                 "every point at all servers in turn, at least two waves of requests after one that warms up. Lower is better."}
plan = {"millrace": env["millrace"], "threads": threads, "rounds": int(env["rounds"]), "formats": formats, "log": env["log"], "models": models,
        "serving": serving, "grid": grid, "facts": facts}
pathlib.Path(sys.argv[1]).write_text(json.dumps(plan, indent=1))
PYTHON
python3 -B bench/cpu/measure.py "$work/plan.json" "$work/results.jsonl"
mkdir -p "$(dirname "$output")"
python3 -B bench/cpu_table.py "$work/results.jsonl" >"$output.partial"
mv "$output.partial" "$output"
say "$output"
