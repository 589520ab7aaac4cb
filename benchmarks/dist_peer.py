"""The work of bench_dist with PyTorch's own DDP and FSDP2, on transformers' llama. Prints one JSON object a process.

    dist_peer.py make DIR
        writes a checkpoint of random weights for both sides
    dist_peer.py step DIR --strategy ddp|fsdp [--checkpoint] [--batch 4] [--tokens 256] [--warmup 2] [--steps 5]
        optimizer steps of this process of a world (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which):
        {"ms", "processor_ms" (of all its threads), "loss" (of its rows), all of each step; "state_bytes", "peak_bytes"}

A step is forward, backward, clipping of the gradients' joint norm to 1 and AdamW's fused update, on one thread in
float32. State is this process's parameters, gradients and moments between steps. Peak bytes are how far the resident
set rose above what it was before the checkpoint was opened: the peak of the steps, not of opening.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
import transformers
from model_peer import open_model, resident
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

SHAPE = dict(vocab_size=8192, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=8,
             num_key_value_heads=8, tie_word_embeddings=False, max_position_embeddings=2048)
LEARNING_RATE = 1e-4


def make(arguments):
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(LlamaConfig(**SHAPE), dtype=torch.float32)
    model.save_pretrained(arguments.folder)


def token_ids(batch, tokens, vocabulary, rank):
    """The same in bench_dist: every process has rows of its own."""
    count = torch.arange(batch * tokens).view(batch, tokens) + rank * batch * tokens
    return (count * 7919 + 13) % vocabulary


def shard(model, arguments):
    """As the tutorials do it: checkpoint wrappers first, then one unit for each block and one for the rest."""
    if arguments.checkpoint:
        wrapper.apply_activation_checkpointing(
            model,
            checkpoint_wrapper_fn=lambda block: wrapper.checkpoint_wrapper(block, wrapper.CheckpointImpl.NO_REENTRANT),
            check_fn=lambda module: isinstance(module, LlamaDecoderLayer))
    if arguments.strategy == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.model.layers:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def bytes_of(tensors):
    return sum((tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes for tensor in tensors)


def state_bytes(model, optimizer):
    """Gradients are gone between steps and are as large as what is trained."""
    moments = (value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))
    return 2 * bytes_of(model.parameters()) + bytes_of(moments)


def step(arguments):
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    dist.init_process_group("gloo")
    before = resident("VmRSS")
    whole = open_model(arguments.folder)
    whole.train()  # the model has no dropout
    ids = token_ids(arguments.batch, arguments.tokens, whole.config.vocab_size, dist.get_rank())
    model = spread(whole, arguments)
    del whole
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0, fused=True)

    def one_step():
        start, processor_start = time.perf_counter(), time.process_time()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        return (time.perf_counter() - start) * 1e3, (time.process_time() - processor_start) * 1e3, value

    for _ in range(arguments.warmup):
        one_step()
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")  # forget the peak so far
    times, processor, losses = zip(*(one_step() for _ in range(arguments.steps)))
    print(json.dumps({
        "ms": times,
        "processor_ms": processor,
        "loss": losses,
        "state_bytes": state_bytes(model, optimizer),
        "peak_bytes": resident("VmHWM") - before,
    }))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(required=True)
    make_parser = modes.add_parser("make")
    make_parser.set_defaults(work=make)
    make_parser.add_argument("folder")
    step_parser = modes.add_parser("step")
    step_parser.set_defaults(work=step)
    step_parser.add_argument("folder")
    step_parser.add_argument("--strategy", choices=["ddp", "fsdp"], required=True)
    step_parser.add_argument("--checkpoint", action="store_true")
    step_parser.add_argument("--batch", type=int, default=4)
    step_parser.add_argument("--tokens", type=int, default=256)
    step_parser.add_argument("--warmup", type=int, default=2)
    step_parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    arguments.work(arguments)


if __name__ == "__main__":
    main()
