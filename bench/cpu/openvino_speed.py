"""OpenVINO GenAI as a worker (worker.py). usage: openvino_speed.py MODEL THREADS, where optimum-cli has exported MODEL."""
import sys

import worker


def load():
    import openvino
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 2  # GiB
    scheduler.enable_prefix_caching = False
    scheduler.max_num_batched_tokens = 4096
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        sys.argv[1], scheduler, "CPU", {"INFERENCE_NUM_THREADS": int(sys.argv[2])})

    def generate(prompts, num_tokens):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = num_tokens
        config.min_new_tokens = num_tokens
        config.ignore_eos = True
        config.do_sample = False
        results = pipeline.generate([openvino.Tensor([prompt]) for prompt in prompts], [config] * len(prompts))
        counts = {len(result.m_generation_ids[0]) for result in results}
        if counts != {num_tokens}:
            raise RuntimeError(f"asked for {num_tokens} tokens, got {counts}")

    return openvino_genai.__version__, generate


worker.serve(load)
