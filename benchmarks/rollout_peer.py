"""The work of bench_rollout with transformers' generate. Prints one JSON object a run.

    rollout_peer.py --model DIR [--device cpu] [--dtype float32] [--batch 8] [--prompt-tokens 64] [--new-tokens 128]
                    [--repeats 3] [--threads 2]
        samples continuations of a llama: {"tokens_per_second" (median of the repeats), "tokens_per_cpu_second"
        (of all threads, which with one thread tells even on a busy machine), "greedy_logprobs" (of a short greedy
        continuation, which must be the same on both sides)}

Samples at temperature 1 without filters or stops, under inference_mode and with the cache that generate() chooses by
itself. Unlike bench_rollout it keeps no log-probabilities of what it samples.
"""
import argparse
import json
import statistics
import time

import torch
import transformers
from model_peer import open_model, seconds, token_ids

GREEDY_TOKENS = 16


def continuation(model, prompts, new_tokens, **options):
    with torch.inference_mode():
        result = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=new_tokens,
            eos_token_id=None,
            pad_token_id=0,
            use_cache=True,
            return_dict_in_generate=True,
            **options,
        )
        if prompts.is_cuda:
            torch.cuda.synchronize()
    assert result.sequences.shape[1] == prompts.shape[1] + new_tokens, "stopped early"
    return result


def greedy_logprobs(model, prompts):
    result = continuation(model, prompts, GREEDY_TOKENS, do_sample=False, output_scores=True)
    return model.compute_transition_scores(result.sequences, result.scores, normalize_logits=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    model = open_model(arguments.model).to(arguments.device, getattr(torch, arguments.dtype)).eval()
    model.generation_config.eos_token_id = None
    prompts = token_ids(arguments.batch, arguments.prompt_tokens, model.config.vocab_size).to(arguments.device)
    logprobs = greedy_logprobs(model, prompts)  # also warms up
    sampling = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
    cpu_start = time.process_time()
    times = [
        seconds(lambda: continuation(model, prompts, arguments.new_tokens, **sampling))[0]
        for _ in range(arguments.repeats)
    ]
    cpu_seconds = time.process_time() - cpu_start
    tokens = arguments.batch * arguments.new_tokens
    result = {
        "tokens_per_second": tokens / statistics.median(times),
        "tokens_per_cpu_second": tokens * arguments.repeats / cpu_seconds,
        "greedy_logprobs": logprobs.flatten().tolist(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
