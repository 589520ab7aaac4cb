"""The work of bench_model with transformers. Prints one JSON object a run.

    model_peer.py step [--model DIR] [--batch 1] [--tokens 256] [--steps 5] [--threads 2] [--checkpoint]
        forward and backward of a llama: {"mode", "ms" (median of the steps), "peak_bytes", "loss"}
    model_peer.py load DIR [--threads 2]
        opens a checkpoint: {"mode", "open_ms", "ms" (opened and every weight read once), "peak_bytes", "weight_bytes"}
    model_peer.py make DIR --shape smollm2|gigabyte
        writes a checkpoint of random weights for the other two

Peak bytes are the growth of the peak resident set from just before the measured work: of steps, after one forward
of a few tokens without gradients that brings in weights mapped from a file.
"""
import argparse
import json
import statistics
import time

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    "smollm2": dict(  # SmolLM2-135M
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    ),
    "gigabyte": dict(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=4,
        tie_word_embeddings=False,
    ),
}


def fresh_model(shape):
    torch.manual_seed(0)
    config = LlamaConfig(**SHAPES[shape])
    return LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=torch.float32)


def open_model(directory):
    return LlamaForCausalLM.from_pretrained(directory, dtype="auto", attn_implementation="sdpa")


def resident(field):
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


class PeakGrowth:
    """Growth of the peak resident set since construction."""

    def __init__(self):
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")  # forget the peak so far
        self.before = resident("VmRSS")

    def bytes(self):
        return resident("VmHWM") - self.before


def token_ids(batch, tokens, vocabulary):
    """The same in bench_model."""
    return (torch.arange(batch * tokens).view(batch, tokens) * 7919 + 13) % vocabulary


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def step(arguments):
    model = open_model(arguments.model) if arguments.model else fresh_model("smollm2")
    model.train()  # the model has no dropout; gradient checkpointing is off in eval mode
    if arguments.checkpoint:
        model.gradient_checkpointing_enable()
    ids = token_ids(arguments.batch, arguments.tokens, model.config.vocab_size)
    with torch.no_grad():
        model(input_ids=ids[:, :8], use_cache=False)

    def forward_and_backward():
        model.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        return loss.item()

    peak = PeakGrowth()
    forward_and_backward()
    times, losses = zip(*(seconds(forward_and_backward) for _ in range(arguments.steps)))
    return {
        "mode": "checkpoint" if arguments.checkpoint else "plain",
        "ms": statistics.median(times) * 1e3,
        "peak_bytes": peak.bytes(),
        "loss": losses[-1],
    }


def load(arguments):
    def read_every_weight(model):
        with torch.no_grad():
            return sum(parameter.sum().item() for parameter in model.parameters())

    peak = PeakGrowth()
    open_time, model = seconds(lambda: open_model(arguments.directory))
    read_time, _ = seconds(lambda: read_every_weight(model))
    return {
        "mode": "load",
        "open_ms": open_time * 1e3,
        "ms": (open_time + read_time) * 1e3,
        "peak_bytes": peak.bytes(),
        "weight_bytes": sum(parameter.nbytes for parameter in model.parameters()),
    }


def make(arguments):
    model = fresh_model(arguments.shape)
    model.save_pretrained(arguments.directory)
    return {"mode": "make", "weight_bytes": sum(parameter.nbytes for parameter in model.parameters())}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(required=True)
    step_parser = modes.add_parser("step")
    step_parser.set_defaults(work=step)
    step_parser.add_argument("--model")
    step_parser.add_argument("--batch", type=int, default=1)
    step_parser.add_argument("--tokens", type=int, default=256)
    step_parser.add_argument("--steps", type=int, default=5)
    step_parser.add_argument("--threads", type=int, default=2)
    step_parser.add_argument("--checkpoint", action="store_true")
    load_parser = modes.add_parser("load")
    load_parser.set_defaults(work=load)
    load_parser.add_argument("directory")
    load_parser.add_argument("--threads", type=int, default=2)
    make_parser = modes.add_parser("make")
    make_parser.set_defaults(work=make, threads=2)
    make_parser.add_argument("directory")
    make_parser.add_argument("--shape", choices=SHAPES, required=True)
    return parser.parse_args()


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    print(json.dumps(arguments.work(arguments)))


if __name__ == "__main__":
    main()
