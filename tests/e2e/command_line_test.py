#!/usr/bin/env python3
"""The millrace binary as a person uses it: its output, its errors, its exit codes.

    command_line_test.py BINARY [unittest arguments]

Needs no module beyond the standard library. What needs a model that is not on the machine is skipped.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from gptq_folder import write_gptq_folder  # noqa: E402

BINARY = ""
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260k"
TOKENIZERS = ROOT.parent / "shared" / "data" / "tokenizers"


def run(*arguments, stdin="", env=None):
    return subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, timeout=120)


def has_default_model():
    return run("tokenize", "--text", "a").returncode == 0


class Basics(unittest.TestCase):
    def test_version_and_help_succeed(self):
        self.assertRegex(run("version").stdout, r"^millrace \d+\.\d+\.\d+\nCUDA backend: (none|for sm_\w+.*, CUDA \d+\.\d+)\n$")
        self.assertEqual(run("--help").returncode, 0)
        for command in ("generate", "run-batch", "chat", "tokenize", "detokenize", "template", "plan", "quantize"):
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn("MODEL", done.stdout)

    def test_help_teaches_the_limits_of_a_server(self):
        text = " ".join(run("serve", "--help").stdout.split())
        for flag in ("--max-num-queued-reqs", "--max-num-queued-tokens", "--max-result-bytes", "--enable-prefix-caching",
                     "--no-enable-prefix-caching", "--long-prefill-token-threshold", "--scheduling-policy",
                     "--speculative-config", "MILLRACE_SPECULATIVE_CONFIG",
                     "MILLRACE_MAX_NUM_QUEUED_REQS", "MILLRACE_ENABLE_PREFIX_CACHING"):
            self.assertIn(flag, text)
        self.assertIn("fair", text)

    def test_a_wrong_command_line_is_one_line_and_exit_code_2(self):
        for arguments, hint in [
            (["generat"], "did you mean 'generate'"),
            (["generate", "--max-token", "3"], "did you mean '--max-tokens'"),
            (["generate", "--block-size", "many"], "--block-size"),
            (["plan", "a", "b"], "too many"),
            (["generate", "--prompt", "x", "--dtype", "int3"], "--dtype"),
            (["generate", "--prompt", "x", "--device", "gpu"], "--device must be auto, cpu or cuda"),
            (["bench", "engine", "--device", "gpu"], "--device must be auto, cpu or cuda"),
            (["bench", "engine", "--device", "cuda", "--isa", "avx2"], "--isa is of --device cpu"),
            (["bench", "engine", "--batch-size", "1,8", "--max-num-batched-tokens", "4"],
             "--max-num-batched-tokens must be at least 8, the largest --batch-size, got '4'"),
            (["generate", "--prompt", "x", "--enforce-eager"], "--enforce-eager is of --device cuda"),
            (["generate", "--prompt", "x", "--gpu-memory-utilization", "0.5"], "--gpu-memory-utilization is of --device cuda"),
            (["serve", "--engine", "null", "--device", "cuda"], "--device"),
            (["chat", "--url", "http://127.0.0.1:1", "--tensor-parallel-size", "2"], "--tensor-parallel-size excludes --url"),
            (["chat", "--url", "http://127.0.0.1:1", "--dtype", "bfloat16"], "--dtype excludes --url"),
            (["chat", "--enforce-eager", "--url", "http://127.0.0.1:1"], "--enforce-eager excludes --url"),
            (["chat", "--ca-file", "x.pem"], "--ca-file requires --url"),
            (["generate", "--prompt", "x", "--tensor-parallel-size", "0"], "--tensor-parallel-size must be 1 to 64"),
            (["generate", "--prompt", "x", "--tensor-parallel-size", "2", "--device", "cuda"],
             "--tensor-parallel-size is of --device cpu"),
            (["serve", "--engine", "null", "--tensor-parallel-size", "2"], "--engine null computes nothing"),
            (["generate", "--seed", "18446744073709551616"], "--seed"),
            (["generate", "--max-num-seqs", "0", "--prompt", "x"], "--max-num-seqs"),
            (["serve", "--engine", "null", "--scheduling-policy", "fair"], "--scheduling-policy fair takes --engine cpu"),
            (["generate", "--prompt", "x", "--scheduling-policy", "lifo"], "fcfs, priority or fair"),
            (["serve", "--max-num-queued-req", "3"], "did you mean '--max-num-queued-reqs'"),
            (["serve", "--max-num-queued-reqs", "0"], "--max-num-queued-reqs must be 1 to 1000000"),
            (["serve", "--max-num-queued-tokens", "0"], "--max-num-queued-tokens"),
            (["serve", "--max-result-bytes", "0"], "--max-result-bytes"),
            (["serve", "--max-connections", "0"], "--max-connections: expected 1 to 16777216, got 0"),
            (["serve", "--max-body-bytes", "2T"], "--max-body-bytes: expected 0 to 1099511627776, got 2199023255552"),
            (["serve", "--uds", "socket", "--ssl-certfile", "c.pem", "--ssl-keyfile", "k.pem"], "--uds takes no --ssl-certfile"),
            (["serve", "--allowed-origins", "example.org"], "--allowed-origins: must be * or scheme://host[:port]"),
            (["serve", "--allowed-origins", '["*", 5]'], "--allowed-origins: must be a list of strings"),
            (["serve", "--allowed-origins", '["*"'], "--allowed-origins: "),
            (["serve", "--api-key", "abc "], "--api-key: must not begin or end with a space"),
            (["serve", "--api-key", "a\nb"], "--api-key: must not hold line breaks"),
            (["serve", "--engine", "null", "--record", "x"], "--record takes --engine cpu"),
            (["serve", "--speculative-config", '{"method":"eagle","num_speculative_tokens":5}'], 'must be "ngram"'),
            (["serve", "--speculative-config", '{"method":"ngram","num_speculative_tokens":99}'],
             "num_speculative_tokens must be 1 to 32"),
            (["generate", "--prompt", "x", "--speculative-config", '{"method":"ngram","num_speculative_tokens":5,"k":1}'],
             '"k" is not known'),
            (["serve", "--engine", "null", "--speculative-config", '{"method":"ngram","num_speculative_tokens":5}'],
             "--speculative-config takes --engine cpu"),
            (["bench", "grid", "--speculative-config", '{"method":"ngram","num_speculative_tokens":5}'],
             "--speculative-config takes --in-process"),
            (["bench", "grid", "--in-process-device", "cuda"], "--in-process-device takes --in-process"),
            (["bench", "grid", "--load-format", "dummy"], "--load-format takes --in-process"),
            (["bench", "grid", "--dtype", "bfloat16"], "--dtype takes --in-process"),
            (["bench", "grid", "--quantization", "int8"], "--quantization takes --in-process"),
            (["bench", "grid", "--threads", "2"], "--threads takes --in-process"),
            (["bench", "grid", "--in-process", "smollm2", "--in-process-device", "gpu"],
             "--in-process-device must be auto, cpu or cuda"),
            (["replay"], "FILE"),
            (["generate"], "--prompt"),
        ]:
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(hint, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_failure_is_one_line_and_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "pytorch_model.bin").write_bytes(b"x")
            pathlib.Path(folder, "config.json").write_text('{"model_type": "llama"}')
            garbage = pathlib.Path(folder, "x.gguf")
            garbage.write_bytes(b"GGUF" + b"\xff" * 60)
            for arguments, hint in [
                (["generate", "/no/such/model", "--prompt", "x"], "/no/such/model"),
                (["generate", folder, "--prompt", "x"], ""),
                (["generate", garbage, "--prompt", "x"], "GGUF"),
                (["plan", garbage], "GGUF"),
                (["tokenize", folder, "--text", "x"], ""),
            ]:
                done = run(*arguments)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertIn(hint, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_device_that_is_not_there_is_named_with_the_reason(self):
        # No device whatever the machine has: the first thing a driver reads.
        for arguments in (["generate", ROOT / "configs/Qwen2-0.5B", "--load-format", "dummy", "--prompt", "x"],
                          ["serve", "--port", "0"], ["bench", "engine", ROOT / "configs/Qwen2-0.5B", "--load-format", "dummy"]):
            done = run(*arguments, "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": ""})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"^millrace (generate|serve|bench engine): no CUDA device: [^\n]+\n$")
            self.assertEqual(done.stdout, "")

    def test_the_missing_default_model_says_what_to_run(self):
        done = run("generate", "--prompt", "x", env={"MILLRACE_CACHE": "/nonexistent"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("./dev setup", done.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for command in ("version", "plan configs/Qwen2-7B"):
            done = subprocess.run(f"'{BINARY}' {command} > /dev/full", shell=True, cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, command)
        done = subprocess.run(f"'{BINARY}' generate --nonsense 2>&-", shell=True, capture_output=True)
        self.assertEqual(done.returncode, 2)

    def test_plan_knows_every_configuration(self):
        for config in sorted((ROOT / "configs").iterdir()):
            done = run("plan", config, "--memory", "640G")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("sequences of", done.stdout)

    def test_plan_refuses_the_lengths_that_serve_refuses(self):
        for command in (["plan"], ["serve", "--load-format", "dummy", "--port", "0"]):
            done = run(command[0], ROOT / "configs" / "Qwen2-0.5B", *command[1:], "--max-model-len", "100M")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"--max-model-len is \d+; the model was made for at most \d+ tokens\n$")

    def test_plan_refuses_the_steps_that_an_engine_refuses(self):
        done = run("plan", ROOT / "configs" / "Qwen2-0.5B", "--max-num-batched-tokens", "63")
        self.assertEqual(done.returncode, 1)
        self.assertIn("max_num_batched_tokens must be at least 64", done.stderr)
        self.assertEqual(run("plan", ROOT / "configs" / "Qwen2-0.5B", "--max-num-batched-tokens", "64").returncode, 0)


@unittest.skipUnless(STORIES.exists(), "../shared/data/models/stories260k is missing")
class Quantize(unittest.TestCase):
    def test_a_quantized_model_is_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "stories-int8"
            done = run("quantize", STORIES, "--to", "int8", "-o", output, "--calibration-tokens", "24")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"stories-int8: int8 \([\d.]+ MB of quantized weights, \d+ tokens of calibration\)")
            config = json.loads((output / "config.json").read_text())
            self.assertEqual(config["quantization_config"], {"quant_method": "millrace", "format": "int8", "version": 1})

            prompt = ("--prompt", "Once upon a time", "--max-tokens", "40", "--temperature", "0", "--json")
            stated = json.loads(run("generate", STORIES, *prompt).stdout)
            found = run("generate", output, *prompt)
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertIn("int8 on", found.stderr)
            ids = json.loads(found.stdout)["token_ids"]
            self.assertEqual(ids[:12], stated["token_ids"][:12])
            self.assertEqual(json.loads(run("generate", output, *prompt).stdout)["token_ids"], ids)
            self.assertIn("int8", run("plan", output).stdout)
            faster = run("generate", output, *prompt, "--quantization", "w8a8")
            self.assertEqual(json.loads(faster.stdout)["token_ids"][:8], stated["token_ids"][:8])
            self.assertIn("w8a8", faster.stderr)
            as_stored = run("generate", output, *prompt, "--quantization", "stored")
            self.assertEqual(json.loads(as_stored.stdout)["token_ids"], ids)
            self.assertIn("int8 on", as_stored.stderr)
            speed = run("bench", "engine", output, "--prompt-len", "16", "--output-len", "2", "--batch-size", "1", "--repetitions", "1",
                        "--json")
            self.assertEqual({json.loads(line)["quantization"] for line in speed.stdout.splitlines()}, {"int8"}, speed.stderr)

            for arguments, hint in [
                (["generate", output, "--prompt", "x", "--quantization", "int4"], "the weights are stored as int8"),
                (["generate", output, "--prompt", "x", "--quantization", "w8a16"], "auto, none, int8, w8a8, int4 or stored"),
                (["generate", STORIES, "--prompt", "x", "--quantization", "stored"], "is not stored as codes"),
                (["plan", STORIES, "--quantization", "stored"], "is not stored as codes"),
                (["plan", output, "--quantization", "int4"], "the weights are stored as int8, not int4"),
                (["plan", output, "--quantization", "none"], "the weights are stored as int8, not none"),
                (["generate", output, "--prompt", "x", "--quantization", "none"], "the weights are stored as int8, not none"),
                (["quantize", output, "-o", output / "again"], "is quantized already"),
                (["quantize", STORIES, "-o", output / "again", "--calibration", "a", "--calibration-tokens", "9"], "which --calibration replaces"),
                (["quantize", STORIES, "-o", output / "again", "--no-calibration", "--calibration-tokens", "9"], "leaves out what --calibration-tokens"),
                (["quantize", STORIES, "-o", output], "is not empty"),
                (["quantize", STORIES], "-o DIR"),
                (["quantize", STORIES, "--to", "int5", "-o", output / "again"], "expected int8 or int4"),
                (["quantize", STORIES, "-o", output / "again", "--calibration", output / "none.txt"], "none.txt"),
                (["quantize", STORIES, "-o", output / "more", "--calibration-tokens", "9999"], "--calibration-tokens"),
            ]:
                done = run(*arguments)
                self.assertNotEqual(done.returncode, 0, arguments)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(hint, done.stderr)

    def test_a_model_of_gptq_stays_in_its_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "stories-gptq"
            write_gptq_folder(STORIES, model)
            prompt = ("--prompt", "Once upon a time", "--max-tokens", "24", "--temperature", "0", "--json")
            values = run("generate", model, *prompt, "--quantization", "none")
            self.assertEqual(values.returncode, 0, values.stderr)
            self.assertIn("float32 on", values.stderr)
            kept = run("generate", model, *prompt)
            self.assertIn("uint4 on", kept.stderr)
            ids = json.loads(kept.stdout)["token_ids"]
            self.assertEqual(ids[:16], json.loads(values.stdout)["token_ids"][:16])
            shared = run("generate", model, *prompt, "--tensor-parallel-size", "8", "--quantization", "stored")
            self.assertIn("rank 1 of 8: tensor 'model.layers.0.self_attn.o_proj.weight'", shared.stderr)  # 8 inputs each
            for size in ("2", "4"):  # 32 and 16
                shared = run("generate", model, *prompt, "--tensor-parallel-size", size)
                self.assertIn("uint4 on", shared.stderr)
                self.assertEqual(json.loads(shared.stdout)["token_ids"][:16], ids[:16])
            self.assertIn("uint4 and", run("plan", model).stdout)
            self.assertIn("float32 (", run("plan", model, "--quantization", "none").stdout)

            again = pathlib.Path(folder) / "stories-int8"
            done = run("quantize", model, "--to", "int8", "--no-calibration", "-o", again)
            self.assertEqual(done.returncode, 0, done.stderr)
            rounded = run("generate", again, *prompt)
            self.assertEqual(json.loads(rounded.stdout)["token_ids"][:8], ids[:8])

    def test_without_calibration_it_is_what_loading_makes_of_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "int4"
            done = run("quantize", STORIES, "--to", "int4", "-o", output, "--no-calibration")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("0 tokens of calibration", done.stdout)
            prompt = ("--prompt", "Once upon a time", "--max-tokens", "40", "--temperature", "0", "--json")
            stored, rounded = run("generate", output, *prompt), run("generate", STORIES, *prompt, "--quantization", "int4")
            self.assertEqual(json.loads(stored.stdout)["token_ids"], json.loads(rounded.stdout)["token_ids"])

    def test_the_type_that_was_asked_for_goes_before_that_of_newer_configurations(self):
        with tempfile.TemporaryDirectory() as folder:
            model, output = pathlib.Path(folder) / "model", pathlib.Path(folder) / "int8"
            shutil.copytree(STORIES, model, copy_function=shutil.copyfile)
            config = json.loads((model / "config.json").read_text())
            del config["torch_dtype"]
            (model / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
            done = run("quantize", model, "--dtype", "bfloat16", "--no-calibration", "-o", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("int8 and bfloat16", run("plan", output).stdout)

    def test_what_failed_can_be_tried_again(self):
        """Files of a run that found the disk full stayed, and the next one refused a directory that is not empty."""
        with tempfile.TemporaryDirectory() as folder:
            model, output = pathlib.Path(folder) / "model", pathlib.Path(folder) / "int8"
            shutil.copytree(STORIES, model, copy_function=shutil.copyfile)
            with open(model / "tokenizer.json", "a", encoding="utf-8") as file:
                file.write(" " * (4 << 20))
            command = [BINARY, "quantize", model, "--no-calibration", "-o", output]
            for output_is_there in (False, True):
                if output_is_there:
                    output.mkdir()
                # Python ignores the signal that a file of that size would end the process with.
                failed = subprocess.run(command, capture_output=True, text=True, restore_signals=False, timeout=120,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)))
                self.assertNotEqual(failed.returncode, 0)
                self.assertIn(f"cannot write '{output}/tokenizer.json': File too large", failed.stderr)
                self.assertEqual(output.exists(), output_is_there)
                self.assertEqual(list(output.glob("*")), [])
            done = run(*command[1:])
            self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless((TOKENIZERS / "qwen2.5").exists(), "../shared/data/tokenizers is missing")
    def test_experts_are_rounded_to_nearest(self):
        sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "vocab_size": 151936, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "head_dim": 16}
        experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
        config = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "torch_dtype": "bfloat16", **sizes, **experts}
        with tempfile.TemporaryDirectory() as folder:
            stated, model, output = (pathlib.Path(folder) / name for name in ("stated", "model", "int4"))
            stated.mkdir()
            (stated / "config.json").write_text(json.dumps(config))
            subprocess.run([sys.executable, ROOT / "bench" / "cpu" / "random_checkpoint.py", stated, TOKENIZERS / "qwen2.5", model],
                           check=True, capture_output=True)
            refused = run("quantize", model, "--to", "int4", "-o", output)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("qwen3_moe models cannot be calibrated yet: round its weights to nearest, with --no-calibration", refused.stderr)
            done = run("quantize", model, "--to", "int4", "-o", output, "--no-calibration")
            self.assertEqual(done.returncode, 0, done.stderr)
            prompt = ("--prompt", "Once", "--max-tokens", "12", "--temperature", "0", "--ignore-eos", "--max-model-len", "64", "--json")
            stored, rounded = run("generate", output, *prompt), run("generate", model, *prompt, "--quantization", "int4")
            self.assertEqual(stored.returncode, 0, stored.stderr)
            self.assertEqual(json.loads(stored.stdout)["token_ids"], json.loads(rounded.stdout)["token_ids"])

    def test_a_text_calibrates_too(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text("Once upon a time there was a dog.\n\n \n\nLily went to the park. " * 60)
            output = pathlib.Path(folder) / "int4"
            done = run("quantize", STORIES, "--to", "int4", "-o", output, "--calibration", text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(run("generate", output, "--prompt", "Once", "--max-tokens", "5").returncode, 0)
            text.write_text("Too short.")
            done = run("quantize", STORIES, "-o", output / "again", "--calibration", text)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"calibration takes 256 tokens at least, and '.*text.txt' has \d+\n$")
            self.assertFalse((output / "again").exists(), "nothing was written")


@unittest.skipUnless(STORIES.exists(), "../shared/data/models/stories260k is missing")
class Generate(unittest.TestCase):
    def lines(self, *arguments, stdin=""):
        done = run("generate", STORIES, "--json", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_json_has_the_promised_keys(self):
        (line,) = self.lines("--prompt", "Once upon a time", "--max-tokens", "5", "--logprobs", "2")
        for key in ("index", "prompt_token_ids", "token_ids", "text", "finish_reason", "logprobs", "timings"):
            self.assertIn(key, line)
        self.assertEqual(len(line["token_ids"]), 5)
        self.assertEqual(line["finish_reason"], "length")
        for token, logprobs in zip(line["token_ids"], line["logprobs"]):
            self.assertEqual(logprobs[0]["id"], token)
            self.assertEqual([entry["logprob"] for entry in logprobs], sorted((e["logprob"] for e in logprobs), reverse=True))

    def test_a_line_wins_over_a_flag_and_keeps_its_place(self):
        requests = [{"prompt": "Once", "max_tokens": 3}, {"prompt": "The dog"}, {"prompt_token_ids": [1, 403], "max_tokens": 1}]
        lines = self.lines("--input", "-", "--max-tokens", "7", stdin="\n".join(map(json.dumps, requests)))
        self.assertEqual([line["index"] for line in lines], [0, 1, 2])
        self.assertEqual([len(line["token_ids"]) for line in lines], [3, 7, 1])
        self.assertEqual(lines[2]["prompt_token_ids"], [1, 403])

    def test_one_bad_line_touches_no_other(self):
        stdin = '{"prompt": "Once", "max_tokens": 4}\n{"prompt": 5}\nnonsense\n{"prompt": "A", "temperatur": 1}\n' \
                '{"prompt": "B", "temperature": 9}\n{"prompt": "Once", "max_tokens": 4}\n'
        done = run("generate", STORIES, "--json", "--input", "-", stdin=stdin)
        self.assertEqual(done.returncode, 1)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(["error" in line for line in lines], [False, True, True, True, True, False])
        self.assertEqual(lines[0]["token_ids"], lines[5]["token_ids"])
        self.assertEqual(lines[3]["error"]["param"], "temperatur")
        self.assertEqual(lines[4]["error"]["param"], "temperature")

    def test_stop_strings_end_the_text_and_n_gives_several(self):
        (full,) = self.lines("--prompt", "Once upon a time", "--max-tokens", "60")
        (cut,) = self.lines("--prompt", "Once upon a time", "--max-tokens", "60", "--stop", "park", "--stop", "zzz")
        self.assertEqual(cut["text"], full["text"].split("park")[0])
        self.assertEqual((cut["finish_reason"], cut["stop_reason"]), ("stop", "park"))
        self.assertLess(len(cut["token_ids"]), 60)
        choices = self.lines("--prompt", "Once", "--n", "3", "--temperature", "1", "--seed", "5", "--stop", "zzz", "--max-tokens", "30")
        self.assertEqual([line["choice"] for line in choices], [0, 1, 2])
        self.assertGreater(len({tuple(line["token_ids"]) for line in choices}), 1)
        again = self.lines("--prompt", "Once", "--n", "3", "--temperature", "1", "--seed", "5", "--stop", "zzz", "--max-tokens", "30")
        self.assertEqual([line["token_ids"] for line in choices], [line["token_ids"] for line in again])

    def test_echo_and_prompt_logprobs(self):
        (line,) = self.lines("--prompt", "Once upon", "--echo", "--prompt-logprobs", "1", "--max-tokens", "2")
        self.assertTrue(line["text"].startswith("Once upon"), line["text"])
        self.assertEqual(len(line["prompt_logprobs"]), len(line["prompt_token_ids"]))
        self.assertIsNone(line["prompt_logprobs"][0])
        self.assertEqual([entry[0]["id"] for entry in line["prompt_logprobs"][1:]], line["prompt_token_ids"][1:])

    def test_streamed_text_is_the_text(self):
        (line,) = self.lines("--prompt", "One day", "--max-tokens", "50")
        done = run("generate", STORIES, "--prompt", "One day", "--max-tokens", "50", "--stream")
        self.assertEqual(done.stdout, line["text"] + "\n")
        self.assertIn("tokens/s", done.stderr)
        self.assertIn("KV cache:", done.stderr)

    def test_flags_come_from_the_environment_and_a_file_too(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write("max_tokens: 6\njson: true\n")
            config.flush()
            done = run("generate", STORIES, "--prompt", "Once", "--config", config.name)
            self.assertEqual(len(json.loads(done.stdout)["token_ids"]), 6)
        done = run("generate", STORIES, "--prompt", "Once", "--json", env={"MILLRACE_MAX_TOKENS": "2"})
        self.assertEqual(len(json.loads(done.stdout)["token_ids"]), 2)

    def test_a_flag_value_in_brackets_is_left_alone(self):
        (line,) = self.lines("--prompt", "[a, b]", "--echo", "--max-tokens", "1", "--stop", "[x,y]")
        self.assertTrue(line["text"].startswith("[a, b]"), line["text"])
        (free,) = self.lines("--prompt", "Once upon", "--max-tokens", "9")
        third = free["token_ids"][2]
        for arguments in (["--stop-token-ids", f"[{third}, 7]"], ["--stop-token-ids", f"[{third}]"]):
            (line,) = self.lines("--prompt", "Once upon", "--max-tokens", "9", *arguments)
            self.assertEqual((line["token_ids"][-1], line["stop_reason"]), (third, third))
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write(f"stop-token-ids: [{third}]\nlogit-bias: {{300: -100}}\nmax-tokens: 9\n")
            config.flush()
            (line,) = self.lines("--prompt", "Once upon", "--config", config.name)
            self.assertEqual(line["stop_reason"], third)
            done = run("generate", STORIES, "--json", "--prompt", "Once upon", env={"MILLRACE_CONFIG": config.name})
            self.assertEqual(json.loads(done.stdout)["stop_reason"], third)

    def test_echo_keeps_the_space_between_prompt_and_answer(self):
        (line,) = self.lines("--prompt", "Once upon", "--echo", "--max-tokens", "2")
        self.assertTrue(line["text"].startswith("Once upon "), line["text"])

    def test_fields_that_would_be_ignored_are_refused(self):
        for request, field in [({"prompt": "a", "tools": 5}, "tools"), ({"prompt": "a", "priority": 5}, "priority"),
                               ({"prompt": "a", "logit_bias": {"07": 1}}, "logit_bias.07"),
                               ({"prompt": "a", "prompt_token_ids": [1]}, "prompt_token_ids")]:
            done = run("generate", STORIES, "--json", "--input", "-", stdin=json.dumps(request))
            self.assertEqual(json.loads(done.stdout)["error"]["param"], field)

    def test_constraints_that_forbid_every_token_end_with_an_error(self):
        request = {"prompt": "Once", "allowed_token_ids": [378], "stop_token_ids": [378], "min_tokens": 3, "max_tokens": 5}
        done = run("generate", STORIES, "--json", "--input", "-", stdin=json.dumps(request))
        line = json.loads(done.stdout)
        self.assertEqual((done.returncode, line["finish_reason"], line["token_ids"]), (1, "error", []))
        self.assertIn("no token", line["error"]["message"])

    def test_a_prompt_that_can_never_fit_is_refused(self):
        done = run("generate", STORIES, "--json", "--input", "-", stdin=json.dumps({"prompt_token_ids": [5] * 600}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("512", json.loads(done.stdout)["error"]["message"])

    def test_a_timeout_ends_with_deadline(self):
        (line,) = self.lines("--prompt", "Once", "--max-tokens", "500", "--ignore-eos", "--timeout-s", "0.001")
        self.assertEqual(line["finish_reason"], "deadline")

    def test_guessing_changes_no_token_and_no_logprob(self):
        prompts = [{"prompt": "Tom saw a cat. Tom saw a cat. Tom saw a", "max_tokens": 80, "n": 3, "temperature": 1, "seed": 7},
                   {"prompt": "a b c d a b c d a b c d a b", "max_tokens": 80, "temperature": 0, "logprobs": 2}]
        stdin = "\n".join(map(json.dumps, prompts))
        config = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}

        def answers(*flags, env=None):
            done = run("generate", STORIES, "--json", "--ignore-eos", "--input", "-", *flags, stdin=stdin, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            return [(line["index"], line["token_ids"], line["text"], line.get("logprobs"), line["finish_reason"]) for line in lines]

        plain = answers()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "steps.jsonl")
            self.assertEqual(answers("--speculative-config", json.dumps(config), "--record", path), plain)
            steps = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual(steps[0]["speculation"], [4, 3, 1])
            outcomes = [outcome for step in steps if step.get("call") == "commit" for outcome in step["outcomes"]]
            num_guessed = sum(len(outcome) - 1 for outcome in outcomes if isinstance(outcome, list))
            self.assertGreater(num_guessed, 5, "nothing was tested")
            self.assertEqual(run("replay", path).returncode, 0)
            flags = pathlib.Path(folder, "flags.yaml")
            flags.write_text("speculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n")
            self.assertEqual(answers("--config", flags), plain)
        self.assertEqual(answers(env={"MILLRACE_SPECULATIVE_CONFIG": json.dumps(config)}), plain)

    def test_a_closed_pipe_is_no_crash(self):
        done = subprocess.run(f"'{BINARY}' generate '{STORIES}' --prompt Once --stream --max-tokens 300 | head -c 5",
                              shell=True, capture_output=True, text=True, timeout=60)
        self.assertNotIn("invariant", done.stderr)

    def test_a_plain_model_refuses_a_chat_by_name(self):
        done = run("generate", STORIES, "--json", "--input", "-", stdin='{"messages": [{"role": "user", "content": "x"}]}')
        self.assertIn("no chat template", json.loads(done.stdout)["error"]["message"])


@unittest.skipUnless(STORIES.exists(), "../shared/data/models/stories260k is missing")
class Replay(unittest.TestCase):
    def record(self, path, *flags):
        prompts = [{"prompt": "Once upon a time", "max_tokens": 30, "n": 3}, {"prompt": "Once upon", "max_tokens": 20},
                   {"prompt": "The cat", "max_tokens": 20, "temperature": 0}]
        return run("generate", STORIES, "--json", "--seed", "3", "--input", "-", "--record", path, *flags,
                   stdin="\n".join(map(json.dumps, prompts)))

    def test_a_recording_gives_the_same_plans_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "steps.jsonl")
            done = self.record(path, "--block-size", "16", "--max-num-batched-tokens", "8", "--max-num-seqs", "4")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            num_outputs = sum(len(json.loads(line)["token_ids"]) for line in done.stdout.splitlines())
            lines = path.read_text().splitlines()
            self.assertNotIn("key", lines[0])
            for flags in ([], ["--no-check"]):
                done = run("replay", path, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                num_steps = sum('"call":"commit"' in line for line in lines)
                self.assertRegex(done.stdout, rf"^{num_steps} steps, 3 requests, \d+ tokens computed")
                self.assertGreaterEqual(int(done.stdout.split(" output tokens")[0].split()[-1]), num_outputs)
                self.assertRegex(done.stdout, r"us a step of the scheduler \(p50 [\d.]+, p99 [\d.]+\)\n$")
            self.assertEqual(run("replay", "-", stdin=path.read_text()).returncode, 0)

    def test_what_differs_or_is_cut_is_named_by_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "steps.jsonl")
            self.assertEqual(self.record(path).returncode, 0)
            whole = path.read_text()
            lines = whole.splitlines(keepends=True)
            number = next(i for i, line in enumerate(lines) if '"call":"plan"' in line) + 1
            plan = json.loads(lines[number - 1])
            plan["scheduled"][0][3] += 1
            path.write_text("".join(lines[:number - 1] + [json.dumps(plan) + "\n"] + lines[number:]))
            done = run("replay", path)
            self.assertEqual(done.returncode, 1)
            recorded, computed, message = done.stderr.splitlines()
            self.assertEqual(recorded, "recorded: " + json.dumps(plan))
            self.assertEqual(computed, "computed: " + lines[number - 1].rstrip())
            self.assertIn(f"{path}:{number}: another plan", message)
            self.assertEqual(done.stdout, "")
            for text, hint in [(whole[:-5], f"{path}:{len(lines)}: the recording is cut short"), ("", "is empty"),
                               ("{}\n", f"{path}:1: not a recording"), (whole + "\0\n", f"{path}:{len(lines) + 1}:")]:
                path.write_text(text)
                done = run("replay", path)
                self.assertEqual(done.returncode, 1)
                self.assertIn(hint, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_full_disk_ends_the_recording_and_nothing_else(self):
        done = self.record("/dev/full")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), len(self.record("/dev/null").stdout.splitlines()))
        self.assertEqual(done.stderr.count("the recording '/dev/full' ends here: No space left on device\n"), 1)

    def test_a_file_that_holds_something_is_left_alone(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("precious")
            file.flush()
            done = self.record(file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("expected a new file", done.stderr)
            self.assertEqual(pathlib.Path(file.name).read_text(), "precious")


class DefaultModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not has_default_model():
            raise unittest.SkipTest("the default model is missing: ./dev setup fetches it")

    def test_it_knows_the_capital_of_france(self):
        done = run("generate", "--prompt", "What is the capital of France?")
        self.assertIn("Paris", done.stdout)

    def test_special_tokens_in_a_message_are_plain_text(self):
        chat = lambda text: json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 1})
        done = run("generate", "--json", "--input", "-", stdin=chat("a") + "\n" + chat("<|im_end|>"))
        plain, marked = (json.loads(line)["prompt_token_ids"] for line in done.stdout.splitlines())
        (end,) = json.loads(run("tokenize", "--text", "<|im_end|>").stdout)
        self.assertEqual(plain.count(end), marked.count(end))

    def test_text_survives_the_way_through_tokens(self):
        texts = ["", "Hello, world", "naïve café 12345", "  \n\t x", "日本語 🎉 <|im_start|>"]
        ids = run("tokenize", "--jsonl", stdin="\n".join(map(json.dumps, texts)))
        back = run("detokenize", "--jsonl", stdin=ids.stdout)
        self.assertEqual([json.loads(line) for line in back.stdout.splitlines()], texts)

    def test_a_template_writes_the_chat_or_says_why_not(self):
        hi = [{"role": "user", "content": "Hi"}]
        lines = [{"messages": hi, "add_generation_prompt": True}, {"messages": hi}, {"messages": []}, {"messages": "x"}]
        done = run("template", "--jsonl", stdin="\n".join(map(json.dumps, lines)))
        prompted, plain, empty, wrong = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual(prompted["text"], plain["text"] + "<|im_start|>assistant\n")
        self.assertIn("error", empty)
        self.assertIn("error", wrong)


class Dummy(unittest.TestCase):
    def test_any_configuration_runs_without_weights(self):
        config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                  "vocab_size": 1000, "max_position_embeddings": 256, "torch_dtype": "bfloat16"}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            runs = [run("generate", folder, "--load-format", "dummy", "--json", "--prompt", "Hello", "--ignore-eos", "--max-tokens", "9")
                    for _ in range(2)]
        self.assertEqual(runs[0].returncode, 0, runs[0].stderr)
        tokens = [json.loads(done.stdout)["token_ids"] for done in runs]
        self.assertEqual(len(tokens[0]), 9)
        self.assertEqual(tokens[0], tokens[1])


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(argv=sys.argv)
