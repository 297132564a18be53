"""Servers of the engines under the same loads in turn: `millrace bench serve` or `millrace bench grid` against each, one after
the other in each round. All are started before and sleep while another is measured.

usage: serving.py --self-test
"""
import csv
import io
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
# How a server or a load of it fails: it is left out of what follows, the others go on.
FAILURES = (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired)


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


class Servers:
    """Those of a load that run; one that fails is stopped and recorded with its error."""

    def __init__(self, kind, recorder, log):
        self.kind, self.recorder, self.log = kind, recorder, log
        self.running = []

    def start(self, entry):
        server = None
        try:
            server = Server(entry, self.log)
            self.running.append(server)
            server.wait_until_ready()  # one after the other: loading takes all cores
        except FAILURES as error:
            self.give_up(entry["name"], error)

    def give_up(self, name, error):
        self.recorder.write(type=self.kind, engine=name, error=str(error))
        print(f"{self.kind}: {name}: {error}", file=sys.stderr)
        for server in [server for server in self.running if server.name == name]:
            self.running.remove(server)
            server.stop()

    def stop(self):
        while self.running:
            self.running.pop().stop()


def run(command, log):
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    log.write(f"$ {' '.join(command)}\n{done.stdout}\n{done.stderr}\n")
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout


def target_flags(load, url, number):
    return ["--backend", "openai", "--base-url", url, "--tokenizer", load["tokenizer"], "--seed", str(number), "--no-calibration"]


class Streams:
    """So many streams at once until all prompts are answered."""

    kind = "serving"

    def __init__(self, binary, load):
        self.binary, self.load = binary, load

    def points(self):
        return [{}]

    def measure(self, server, number, _, folder, log):
        load = self.load
        run([self.binary, "bench", "serve", *target_flags(load, server.url, number), "--dataset-name", "random",
             "--input-len", str(load["input_len"]), "--output-len", str(load["output_len"]), "--max-concurrency",
             str(load["streams"]), "--num-prompts", str(load["num_prompts"]), "--num-warmups", str(load["streams"]),
             "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", folder,
             "--result-filename", "result.json"], log)
        result = json.loads((pathlib.Path(folder) / "result.json").read_text())
        return {key: result[key] for key in ("completed", "output_throughput", "mean_ttft_ms", "p99_itl_ms", "mean_itl_ms")}


class Grid:
    """Batch, prompt, hit and output lengths; every point runs against all servers before the next."""

    kind = "grid"

    def __init__(self, binary, load):
        self.binary, self.load = binary, load

    def points(self):
        return [{"batch_size": batch_size} | dict(zip(("input_len", "hit_len", "output_len"), lengths))
                for batch_size in self.load["batch_sizes"] for lengths in self.load["lengths"]]

    def command(self, server, number, point, records):
        # At least two waves and four requests; the warm-up fills all of the server's places, some of which have a cache of their own.
        return [self.binary, "bench", "grid", *target_flags(self.load, server.url, number), "--framework", server.name,
                "--b", str(point["batch_size"]), "--iho", f"{point['input_len']}/{point['hit_len']}/{point['output_len']}",
                "--n", str(max(4, 2 * point["batch_size"])), "--num-warmups", str(point["batch_size"]), "--records", records]

    def measure(self, server, number, point, folder, log):
        records = str(pathlib.Path(folder) / "records.jsonl")
        run(self.command(server, number, point, records), log)
        return grid_figures(run([self.binary, "bench", "report", "--in", records, "--shape", "csv"], log))


def grid_figures(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows of a grid's point: expected one")
    row = rows[0]
    if row["num_completed"] != row["num_prompts"]:
        raise ValueError(f"{row['num_completed']} of {row['num_prompts']} requests completed")
    figures = {"rps": "request_throughput", "tps": "total_throughput", "mean_ttft_ms": "ttft_mean_ms", "mean_e2e_ms": "e2e_mean_ms"}
    result = {key: float(row[column]) for key, column in figures.items()}
    if row["prefix_hit_rate"]:  # not every server says it
        result["prefix_hit_rate"] = float(row["prefix_hit_rate"])
    return result | {"version": row["version"]}


def measure_in_turn(load, servers, num_rounds):
    for number in range(num_rounds):
        for point in load.points():
            for server in list(servers.running):
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        row = {"round": number, **point, **load.measure(server, number, point, folder, servers.log)}
                except FAILURES as error:
                    servers.give_up(server.name, error)
                    continue
                servers.recorder.write(type=load.kind, engine=server.name, **row)
                print(f"{load.kind}: {server.name} {json.dumps(row)}", file=sys.stderr, flush=True)


def measure_serving(plan, recorder, log):
    for kind in (Streams, Grid):
        entry = plan[kind.kind]
        if not entry:
            continue
        servers = Servers(kind.kind, recorder, log)
        try:
            for server in entry["servers"]:
                servers.start(server)
            measure_in_turn(kind(plan["millrace"], entry), servers, plan["rounds"])
        finally:
            servers.stop()


def self_test():
    class Rows(list):
        def write(self, **row):
            self.append(row)

    class FakeServer:
        url = "http://127.0.0.1:1"

        def __init__(self, name):
            self.name, self.is_stopped = name, False

        def stop(self):
            self.is_stopped = True

    class FailingLoad:
        kind = "grid"

        def points(self):
            return [{"batch_size": 1}, {"batch_size": 4}]

        def measure(self, server, _, point, *__):
            if server.name == "bad" and point["batch_size"] == 4:
                raise ValueError("no such batch")
            return {"mean_e2e_ms": 2.0}

    header = "num_prompts,num_completed,request_throughput,total_throughput,prefix_hit_rate,ttft_mean_ms,e2e_mean_ms,version\n"
    assert grid_figures(header + "6,6,2.5,100,0.5,20,400,vllm 1\n") == {
        "rps": 2.5, "tps": 100.0, "mean_ttft_ms": 20.0, "mean_e2e_ms": 400.0, "prefix_hit_rate": 0.5, "version": "vllm 1"}
    assert "prefix_hit_rate" not in grid_figures(header + "6,6,2.5,100,,20,400,vllm 1\n")
    for wrong in ("", "6,5,2.5,100,0.5,20,400,x\n"):
        try:
            grid_figures(header + wrong)
        except ValueError:
            continue
        raise AssertionError("a point that did not run whole is an error")

    grid = Grid("millrace", {"tokenizer": "T", "batch_sizes": [1, 8], "lengths": [[32, 0, 64], [256, 128, 8]]})
    assert [point["batch_size"] for point in grid.points()] == [1, 1, 8, 8]
    words = " ".join(grid.command(FakeServer("vLLM"), 2, grid.points()[3], "R"))
    assert "--seed 2" in words and "--b 8 --iho 256/128/8 --n 16 --num-warmups 8 --records R" in words, words

    # What fails is left out of what follows, and the others are measured on.
    rows = Rows()
    with tempfile.TemporaryFile("w") as log:
        servers = Servers("grid", rows, log)
        servers.start({"name": "absent", "command": ["/nowhere/server"]})
        bad, good = FakeServer("bad"), FakeServer("good")
        servers.running += [bad, good]
        measure_in_turn(FailingLoad(), servers, 2)
    assert bad.is_stopped and not good.is_stopped
    assert [(row["engine"], "error" in row) for row in rows] == [
        ("absent", True), ("bad", False), ("good", False), ("bad", True), ("good", False), ("good", False), ("good", False)], rows
    print("1 passed, 0 failed")


if __name__ == "__main__" and sys.argv[1:] == ["--self-test"]:
    self_test()
