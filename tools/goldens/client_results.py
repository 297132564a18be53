"""Results of others' benchmark clients, as tests/golden/client_results/ has them.

Each client measures guidellm's own mock server for some seconds; what it saves and prints is kept,
guidellm's report without its requests and without what is not read (6 MB otherwise).

Made with guidellm 0.8.1, vllm 0.32.0, sglang 0.4.6.post5 (its bench_serving.py alone):

    python3 tools/goldens/client_results.py --guidellm GUIDELLM --vllm VLLM --sglang-python PYTHON --sglang-client FILE \
        --tokenizer FOLDER --out tests/golden/client_results

where the first two are the programs, PYTHON has what FILE, bench_serving.py, imports, and FOLDER is
any tokenizer that Transformers loads.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request

PORT = 18477
URL = f"http://127.0.0.1:{PORT}"


def run(command, **kwargs):
    environment = dict(os.environ, HF_HUB_OFFLINE="1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **kwargs)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wait_for_server():
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{URL}/v1/models", timeout=1).read()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the mock server does not answer")


def console_block(text):
    return re.search(r"^=+ Serving Benchmark Result =+$.*?^=+$\n", text, re.MULTILINE | re.DOTALL).group(0)


def trimmed(report):
    """guidellm's report with what import reads, and the neighbours of it."""
    spec = report["config"]["spec"]
    kept = {
        "metadata": {"version": report["metadata"]["version"], "guidellm_version": report["metadata"]["guidellm_version"]},
        "config": {"spec": {"backend": {"model": spec["backend"]["model"]}, "profile": spec["profile"], "data": spec["data"]}},
        "benchmarks": [],
    }
    for benchmark in report["benchmarks"]:
        metrics = {}
        for name, value in benchmark["metrics"].items():
            if name == "request_totals":
                metrics[name] = value
            elif isinstance(value, dict) and isinstance(value.get("successful"), dict):
                successful = {k: v for k, v in value["successful"].items() if k not in ("pdf", "mean_ci", "percentile_cis")}
                metrics[name] = {"successful": successful}
        kept["benchmarks"].append({
            "type_": benchmark["type_"],
            "config": {"strategy": benchmark["config"]["strategy"]},
            "metrics": metrics,
            "start_time": benchmark["start_time"],
            "end_time": benchmark["end_time"],
            "duration": benchmark["duration"],
        })
    return kept


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--guidellm", "--vllm", "--sglang-python", "--sglang-client", "--tokenizer", "--out"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp())
    mock = subprocess.Popen([args.guidellm, "mock-server", "--port", str(PORT), "--model", "m", "--ttft-ms", "20",
                             "--itl-ms", "4", "--output-tokens", "16"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_server()
        run([args.guidellm, "run", "--backend", f"kind=openai_http,target={URL},model=m", "--profile", "kind=sweep,sweep_size=4",
             "--constraint", "kind=max_duration,seconds=4", "--tokenizer", f"kind=hf_auto,model={args.tokenizer}",
             "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=16", "--disable-progress"], cwd=folder)
        workload = ["--base-url", URL, "--model", "m", "--tokenizer", args.tokenizer, "--random-input-len", "32",
                    "--random-output-len", "16", "--num-prompts", "20"]
        printed = run([args.vllm, "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions", *workload,
                       "--dataset-name", "random", "--request-rate", "20", "--max-concurrency", "4",
                       "--percentile-metrics", "ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue",
                       "--goodput", "ttft:200", "--metadata", "framework=mock", "--save-result",
                       "--result-filename", str(folder / "vllm.json")])
        run([args.sglang_python, args.sglang_client, "--backend", "vllm", *workload, "--dataset-name", "random-ids",
             "--random-range-ratio", "1.0", "--max-concurrency", "4", "--output-file", str(folder / "sglang.jsonl")])
    finally:
        mock.terminate()
        mock.wait()
    report = trimmed(json.loads((folder / "benchmarks.json").read_text()))
    (out / "guidellm.json").write_text(json.dumps(report) + "\n")
    (out / "vllm_console.txt").write_text(console_block(printed))
    for name in ("vllm.json", "sglang.jsonl"):
        (out / name).write_text((folder / name).read_text().replace(args.tokenizer, "tokenizer").rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
