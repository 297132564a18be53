"""Servers of the engines under one load in turn: `millrace bench serve` against each, one after the other in each round. All
are started before and sleep while another is measured.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

READY_S = 900  # vLLM on two busy cores takes minutes


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    def __init__(self, entry, log):
        self.name, port = entry["name"], free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = os.environ | entry.get("environment", {})
        self.process = subprocess.Popen([word.replace("{port}", str(port)) for word in entry["command"]], stdout=log,
                                        stderr=log, env=environment)

    def wait_until_ready(self):
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.5)
        raise RuntimeError(f"the server was not ready within {READY_S} s")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run_load(plan, server, number, log):
    load = plan["serving"]
    with tempfile.TemporaryDirectory() as folder:
        command = [plan["millrace"], "bench", "serve", "--backend", "openai", "--base-url", server.url,
                   "--tokenizer", load["tokenizer"], "--dataset-name", "random",
                   "--input-len", str(load["input_len"]), "--output-len", str(load["output_len"]), "--max-concurrency",
                   str(load["streams"]), "--num-prompts", str(load["num_prompts"]), "--num-warmups", str(load["streams"]),
                   "--seed", str(number), "--no-calibration", "--percentile-metrics", "ttft,tpot,itl,e2el",
                   "--save-result", "--result-dir", folder, "--result-filename", "result.json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        log.write(f"$ {' '.join(command)}\n{done.stdout}\n{done.stderr}\n")
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        result = json.loads((pathlib.Path(folder) / "result.json").read_text())
    return {key: result[key] for key in ("completed", "output_throughput", "mean_ttft_ms", "p99_itl_ms", "mean_itl_ms")}


def measure_serving(plan, recorder, log):
    servers = []
    try:
        for entry in plan["serving"]["servers"]:
            server = Server(entry, log)
            servers.append(server)
            server.wait_until_ready()  # one after the other: loading takes all cores
        for number in range(plan["rounds"]):
            for server in servers:
                row = {"type": "serving", "round": number, "engine": server.name}
                row |= run_load(plan, server, number, log)
                recorder.write(**row)
                print(f"serving round {number}: {server.name} {row['output_throughput']:.1f} tokens/s", file=sys.stderr)
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        recorder.write(type="serving", engine=servers[-1].name if servers else "", error=str(error))
        print(f"serving: {error}", file=sys.stderr)
    finally:
        for server in servers:
            server.stop()
