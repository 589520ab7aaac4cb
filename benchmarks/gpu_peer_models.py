"""Who gpu_peer.py measures: transformers' Llama with what its users switch on, and its ways to checkpoint.

Every peer is built anew for each measurement, so that none runs with what another one replaced or compiled.
"""
import contextlib
import dataclasses
import functools

import torch
import torch._functorch.config
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TRL_CHUNK = 32768  # columns of the vocabulary at a time, as its trainer does
ADAPTERS = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}


@dataclasses.dataclass(frozen=True)
class Peer:
    modes: tuple = ("none", "gc")
    has_liger: bool = False
    attention: SDPBackend | None = None  # none: what torch takes by itself
    has_trl_head: bool = False
    compiles: str = ""  # blocks, or whole: a mode that is a number then is the activation memory budget
    trains: bool = False  # clipping and fused AdamW too
    dtype: torch.dtype = torch.bfloat16  # of the weights; float32 runs under autocast
    has_lora: bool = False


CUDNN = {"attention": SDPBackend.CUDNN_ATTENTION}
LIGER = {"has_liger": True, **CUDNN}
PEERS = {
    "hf": Peer(("none", "gc", "every2", "offload", "selective")),
    "trl_head": Peer(("none", "gc", "every2", "offload", "selective"), has_trl_head=True),
    "liger": Peer(("none", "gc", "selective", "every2"), **LIGER),
    "liger_flash": Peer(("none", "gc", "selective"), has_liger=True, attention=SDPBackend.FLASH_ATTENTION),
    "compile_blocks": Peer(("none", "gc", "selective"), compiles="blocks", **CUDNN),
    "compile_budget": Peer(("1.0", "0.8", "0.6", "0.4", "0.2", "gc", "selective"), compiles="whole"),
    "hf_train": Peer(trains=True),
    "liger_train": Peer(trains=True, **LIGER),
    "hf_train32": Peer(trains=True, dtype=torch.float32),
    "liger_train32": Peer(trains=True, dtype=torch.float32, **LIGER),
    "hf_lora": Peer(has_lora=True),
    "liger_lora": Peer(has_lora=True, **LIGER),
}


@contextlib.contextmanager
def liger_kernels():
    """Liger replaces classes and functions of transformers; other peers need them as they were."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama
    from transformers.models.llama import modeling_llama

    module, forward = dict(vars(modeling_llama)), modeling_llama.LlamaForCausalLM.forward
    apply_liger_kernel_to_llama()
    try:
        yield
    finally:
        vars(modeling_llama).update(module)
        modeling_llama.LlamaForCausalLM.forward = forward


def build(shape, dtype):
    from transformers import LlamaConfig, LlamaForCausalLM

    m = shape.model
    config = LlamaConfig(
        vocab_size=m.vocabulary, hidden_size=m.hidden, intermediate_size=m.intermediate, num_hidden_layers=m.layers,
        num_attention_heads=m.heads, num_key_value_heads=m.kv_heads, head_dim=m.head_dim, tie_word_embeddings=m.tied,
        max_position_embeddings=131072, rope_theta=500000.0, rms_norm_eps=1e-5, use_cache=False)
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(dtype)
    try:
        with torch.device(DEVICE):
            return LlamaForCausalLM(config).train()
    finally:
        torch.set_default_dtype(torch.float32)


def attention_kept():
    """Contexts of torch's selective checkpointing that keep attention, as TRL's option does."""
    names = ("flash", "efficient", "cudnn")
    kept = {getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default for name in names}
    kept.add(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)

    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def set_mode(model, mode):
    if mode == "none":
        return
    kwargs = {"use_reentrant": False}
    if mode == "selective":
        kwargs["context_fn"] = attention_kept
    # Inside gradient_checkpointing_kwargs these two would be ignored.
    extra = {"every2": {"every_n_layers": 2}, "offload": {"offload": True}}.get(mode, {})
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs, **extra)


def trl_function():
    try:
        from trl.kernels.chunked_logprob import ChunkedLogProbFunction
    except ImportError:  # the one file of the package that is needed
        from chunked_logprob import ChunkedLogProbFunction
    return ChunkedLogProbFunction


def trl_loss(model):
    function = trl_function()

    def loss(ids):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        hidden, targets = hidden.reshape(-1, hidden.shape[-1]), ids[:, 1:].reshape(-1)
        return -function.apply(hidden, model.lm_head.weight, None, targets, 1.0, TRL_CHUNK, None, 1.0, ())[0].mean()

    return loss


def blocks_loss(model, mode):
    """Every block compiled on its own, checkpointed from outside, with Liger's loss: torchtitan's recipe."""
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    inner = model.model
    for block in (*inner.layers, inner.norm):
        block.compile()
    contexts = {"context_fn": attention_kept} if mode == "selective" else {}

    def loss(ids):
        x = inner.embed_tokens(ids)
        positions = torch.arange(ids.shape[1], device=x.device)[None]
        rotary = inner.rotary_emb(x, positions)
        for block in inner.layers:
            run = functools.partial(
                block, attention_mask=None, position_ids=positions, position_embeddings=rotary, use_cache=False)
            if mode == "none":
                x = run(x)
            else:
                x = checkpoint(run, x, use_reentrant=False, preserve_rng_state=False, **contexts)
            x = x[0] if isinstance(x, tuple) else x
        hidden = inner.norm(x)[:, :-1].reshape(-1, x.shape[-1])
        return liger_fused_linear_cross_entropy(hidden, model.lm_head.weight, ids[:, 1:].reshape(-1))

    return loss


def is_budget(mode):
    return mode[0].isdigit()


def loss_function(peer, model, mode):
    if peer.compiles:
        # The partitioner's setting is global.
        torch._functorch.config.activation_memory_budget = float(mode) if is_budget(mode) else 1.0
    if peer.compiles == "blocks":
        return blocks_loss(model, mode)
    if peer.has_trl_head:
        return trl_loss(model)
    forward = torch.compile(model.forward) if peer.compiles else model
    return lambda ids: forward(input_ids=ids, labels=ids, use_cache=False).loss


def settings(peer):
    """Entered around building and running the peer."""
    stack = contextlib.ExitStack()
    if peer.has_liger:
        stack.enter_context(liger_kernels())
    if peer.attention is not None and DEVICE == "cuda":
        stack.enter_context(sdpa_kernel(peer.attention))
    return stack


def peer_model(peer, shape, mode):
    model = build(shape, peer.dtype)
    if peer.has_lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **ADAPTERS)).train()
    # Compiled blocks are checkpointed from outside: blocks_loss.
    if peer.compiles != "blocks" and not is_budget(mode):
        set_mode(model, mode)
    return model
