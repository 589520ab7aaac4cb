#!/usr/bin/env python3
"""Time and peak memory of a transformers model on one GPU: byte budgets beside what PyTorch users have.

usage: gpu_curve.py --shape 1b|moe [--steps N] [--turns N] [--only NAME…] [--out FILE]

All modes run on the same model with Liger's kernels, in turns. A peak is what the allocator held above what it held
before the step (gradients exist already), so that a budget and a peak are the same bytes. `--shape` 1b is Llama-3.2-1B
with 8 x 2048 tokens; moe is a small Qwen3-MoE. Modes whose package is missing are left out, and said.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import sys

import torch
import torch.utils.checkpoint

import reprise

GIB = 2**30
BUDGETS = 7  # points of our curve between its ends


def model_of(shape: str):
    import transformers

    if shape == "1b":
        from liger_kernel.transformers import apply_liger_kernel_to_llama as liger

        config = transformers.LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, tie_word_embeddings=True,
        )
        kind, batch = transformers.LlamaForCausalLM, (8, 2048)
    else:
        from liger_kernel.transformers import apply_liger_kernel_to_qwen3_moe as liger

        config = transformers.Qwen3MoeConfig(
            vocab_size=65536, hidden_size=1024, intermediate_size=2816, moe_intermediate_size=768, num_hidden_layers=12,
            num_attention_heads=16, num_key_value_heads=4, head_dim=64, num_experts=16, num_experts_per_tok=2,
            decoder_sparse_step=1, tie_word_embeddings=True,
        )
        kind, batch = transformers.Qwen3MoeForCausalLM, (8, 2048)
        config._experts_implementation = "grouped_mm"
    config.use_cache = False
    config._attn_implementation = "sdpa"
    # Liger's SwiGLU expects experts as separate modules: transformers 5 has them in one tensor.
    liger(**({} if shape == "1b" else {"swiglu": False}))
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = kind(config).train()
        torch.set_default_dtype(torch.float32)
        ids = torch.randint(0, config.vocab_size, batch)
    return model, ids


def layers_of(model):
    return model.model.layers


class Run:
    """One model, measured in one mode after the other."""

    def __init__(self, model, ids):
        self.model, self.ids = model, ids
        self.step()  # gradients exist from here on
        self.base = torch.cuda.memory_allocated()

    def step(self):
        self.model.zero_grad(set_to_none=False)
        loss = self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss
        loss.backward()
        return loss.detach()

    def measure(self, around, steps: int, warmup: int) -> dict:
        times = []
        for i in range(warmup + steps):
            if i == warmup:
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            with around():
                self.step()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        peak = torch.cuda.max_memory_allocated() - self.base
        return {"ms": statistics.median(times[warmup:]), "bytes": peak}

    def gradients(self, around) -> tuple:
        with around():
            loss = self.step()
        return loss, [None if p.grad is None else p.grad.clone() for p in self.model.parameters()]


@contextlib.contextmanager
def under(model, function, every: int = 1):
    """The model with `function` in the place of torch.utils.checkpoint.checkpoint."""
    model._set_gradient_checkpointing(True, function, every)
    try:
        yield
    finally:
        model._set_gradient_checkpointing(False)


@contextlib.contextmanager
def under_transformers(model, **options):
    """As a Trainer's gradient_checkpointing=True does it."""
    enable = getattr(model, "activation_checkpointing_enable", None)
    if enable is not None:
        enable(activation_checkpointing_kwargs={"use_reentrant": False}, **options)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False}, **options)
    try:
        yield
    finally:
        getattr(model, "activation_checkpointing_disable", model.gradient_checkpointing_disable)()


def keeping(operators, every_mm: int = 0):
    """Selective checkpointing as TRL and torchtitan write it: attention is kept, and every n-th product."""
    policy = torch.utils.checkpoint.CheckpointPolicy

    def contexts():
        seen = [0, 0]

        def decide(ctx, op, *args, **kwargs):
            if op in operators:
                return policy.MUST_SAVE
            if every_mm and op == torch.ops.aten.mm.default:
                seen[ctx.is_recompute] += 1
                if seen[ctx.is_recompute] % every_mm:
                    return policy.MUST_SAVE
            return policy.PREFER_RECOMPUTE

        return torch.utils.checkpoint.create_selective_checkpoint_contexts(decide)

    return contexts


ATTENTION = {
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
}


def torch_checkpoint(**options):
    def function(layer, *args, **kwargs):
        return torch.utils.checkpoint.checkpoint(layer, *args, use_reentrant=False, **options, **kwargs)

    return function


def offloading(layer, *args, **kwargs):
    """Inputs of layers wait in host memory."""
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        return torch.utils.checkpoint.checkpoint(layer, *args, use_reentrant=False, **kwargs)


def remat():
    import torch_remat

    def function(layer, *args, **kwargs):
        return torch_remat.checkpoint()(layer)(*args, **kwargs)

    return function


@contextlib.contextmanager
def compiled(model, budget: float):
    """Every layer compiled, and the partitioner decides by its memory budget."""
    import torch._functorch.config as functorch

    torch._dynamo.reset()
    before = functorch.activation_memory_budget
    functorch.activation_memory_budget = budget
    for layer in layers_of(model):
        layer.compile()
    try:
        yield
    finally:
        functorch.activation_memory_budget = before
        for layer in layers_of(model):
            layer._compiled_call_impl = None
        torch._dynamo.reset()


def peers_of(run: Run) -> dict:
    model = run.model
    modes = {
        "none": contextlib.nullcontext,
        "transformers, checkpointing": lambda: under_transformers(model),
        "transformers, every 2nd layer": lambda: under_transformers(model, every_n_layers=2),
        "transformers, every 4th layer": lambda: under_transformers(model, every_n_layers=4),
        "torch.utils.checkpoint, save_on_cpu": lambda: under(model, offloading),
        "torch.utils.checkpoint, attention kept": lambda: under(
            model, torch_checkpoint(context_fn=keeping(ATTENTION))),
        "torch.utils.checkpoint, attention and every 2nd product kept": lambda: under(
            model, torch_checkpoint(context_fn=keeping(ATTENTION, 2))),
    }
    try:
        function = remat()
        modes["torch_remat"] = lambda: under(model, function)
    except ImportError:
        print("no torch_remat here: left out", file=sys.stderr)
    return modes


def budgets_of(run: Run) -> dict:
    """Plans from the least bytes to the most, of one trace."""
    with under(run.model, reprise.checkpoint):
        plan = reprise.plan(run.step, budget="1000GiB")
    low, high = plan.curve[0][0], plan.curve[-1][0]
    wanted = [low + (high - low) * i // (BUDGETS + 1) for i in range(BUDGETS + 2)]
    return {f"budget {size / GIB:.2f} GiB": plan.with_budget(size) for size in wanted}


@contextlib.contextmanager
def planned(model, plan):
    with under(model, reprise.checkpoint), plan:
        yield


def measured(modes: dict, run: Run, options, results: list, **facts):
    for name, around in modes.items():
        if options.only and not any(part in name for part in options.only):
            continue
        torch.cuda.empty_cache()
        try:
            result = run.measure(around, options.steps, options.warmup)
        except Exception as error:  # one mode of a peer does not end the run
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
            continue
        result |= {"mode": name, "side": "reprise" if "budget_bytes" in facts.get(name, {}) else "peer"}
        result |= facts.get(name, {})
        results.append(result)
        print(json.dumps(result), flush=True)


def law(run: Run, plans: dict) -> list:
    """Whether loss and every gradient have the bits of no checkpointing, with deterministic kernels."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    expected = run.gradients(contextlib.nullcontext)
    rows = []
    again = run.gradients(contextlib.nullcontext)
    for name, (loss, gradients) in {"none, again": again}.items():
        rows.append((name, differing((loss, gradients), expected)))
    del again
    for name, plan in plans.items():
        rows.append((name, differing(run.gradients(lambda plan=plan: planned(run.model, plan)), expected)))
    torch.use_deterministic_algorithms(False)
    return rows


def differing(actual, expected) -> int:
    """How many of the loss and the gradients differ in a bit."""
    pairs = zip([actual[0], *actual[1]], [expected[0], *expected[1]])
    return sum(not torch.equal(a, b) for a, b in pairs if a is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["1b", "moe"], default="1b")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--compile", nargs="*", type=float, default=[], help="memory budgets of torch.compile, 0 to 1")
    parser.add_argument("--out")
    options = parser.parse_args()

    model, ids = model_of(options.shape)
    run = Run(model, ids)
    results: list = []
    plans = budgets_of(run)
    facts = {
        name: {"budget_bytes": plan.budget, "predicted_bytes": plan.peak_bytes, "predicted_extra_ms": plan.extra_ms}
        for name, plan in plans.items()
    }
    ours = {name: lambda plan=plan: planned(model, plan) for name, plan in plans.items()}
    for _ in range(options.turns):
        measured(peers_of(run) | ours, run, options, results, **facts)
    rows = law(run, plans)
    for name, count in rows:
        print(f"law: {name}: {count} differ", flush=True)
    for budget in options.compile:
        with compiled(model, budget):
            measured({f"torch.compile, budget {budget}": contextlib.nullcontext}, run, options, results)
    if options.compile:
        # Our plans over compiled layers: a region recomputes what the compiler made.
        with compiled(model, 1.0):
            over = {f"compiled layers, {name}": plan for name, plan in budgets_of(run).items()}
            facts = {
                name: {"budget_bytes": plan.budget, "predicted_bytes": plan.peak_bytes}
                for name, plan in over.items()
            }
            measured({name: lambda plan=plan: planned(model, plan) for name, plan in over.items()}, run, options,
                     results, **facts)
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"shape": options.shape, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "results": results, "law": rows}, file, indent=1)
    gc.collect()


if __name__ == "__main__":
    main()
