"""Tiny models of transformers, one for each model type: what test_model_families.py and the model table run."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Sizes under the names that configurations have for them. A configuration takes those that it knows.
_SIZES: dict[str, Any] = dict(
    vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=64, n_embd=32, n_layer=3, n_head=4, n_positions=64,
    n_inner=64, d_model=32, d_ff=64, d_kv=8, num_layers=3, num_decoder_layers=3, num_heads=4, encoder_layers=3,
    decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
    ffn_dim=64, ffn_hidden_size=64, word_embed_proj_dim=32, rotary_dim=4, num_experts=4, num_local_experts=4,
    num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32, n_routed_experts=4,
    moe_num_experts=4, n_group=1, topk_group=1, first_k_dense_replace=1, image_size=16, patch_size=4, num_channels=3,
    state_size=8, time_step_rank=4, conv_kernel=4, expand=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    decoder_start_token_id=1, use_cache=False, embedding_size=32, rotary_ndims=4, layerdrop=0.0, encoder_layerdrop=0.0,
    decoder_layerdrop=0.0, dim=32, n_layers=3, n_heads=4, hidden_dim=64, mamba_expand=2, mamba_n_heads=8,
    mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8, mamba_num_heads=8, mamba_head_dim=8, ssm_state_size=8,
    n_groups=1, kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Family:
    """One model type with its batch."""

    name: str
    kind: str  # "dense", "MoE", "encoder-decoder", "vision", "state-space", "hybrid", "encoder", "audio", "multimodal"
    model_class: str = "AutoModelForCausalLM"
    changes: tuple[tuple[str, Any], ...] = ()  # of the configuration, beyond the sizes
    batch: str = "text"

    def config(self) -> Any:
        config_class = CONFIG_MAPPING[self.name]
        config = config_class()
        sizes = {name: value for name, value in _SIZES.items() if hasattr(config, name)}
        changes = {name: value() if callable(value) else value for name, value in self.changes}
        return config_class(**(sizes | changes))

    def model(self) -> Any:
        torch.manual_seed(0)
        make = getattr(transformers, self.model_class)
        return (make.from_config if self.model_class.startswith("Auto") else make)(self.config()).train()

    def inputs(self, rows: int = 2, length: int = 16) -> dict[str, torch.Tensor]:
        torch.manual_seed(1)
        return _BATCHES[self.batch](self, rows, length)


def _text(family: Family, rows: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 120, (rows, length))
    return {"input_ids": ids, "labels": ids}


def _image(family: Family, rows: int, length: int) -> dict[str, torch.Tensor]:
    config = family.config()
    return {"pixel_values": torch.randn(rows, 3, config.image_size, config.image_size)}


def _sound(family: Family, rows: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(rows, 64 * length)}


_BATCHES: dict[str, Callable[..., dict[str, torch.Tensor]]] = {"text": _text, "image": _image, "sound": _sound}


def loss_of(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    output = model(**inputs)
    loss = getattr(output, "loss", None)
    if loss is not None:
        return loss
    value = output.logits if hasattr(output, "logits") else output[0]
    return value.float().square().mean()


_SMALL_SOUND = (
    ("conv_dim", (16, 16)), ("conv_stride", (4, 2)), ("conv_kernel", (4, 2)), ("num_feat_extract_layers", 2),
    ("num_conv_pos_embeddings", 4), ("num_conv_pos_embedding_groups", 2), ("mask_time_prob", 0.0),
    ("feat_extract_norm", "layer"), ("do_stable_layer_norm", True),
)  # fmt: skip
_STAGES = (
    ("image_size", 16), ("patch_size", 2), ("embed_dim", 16), ("depths", (2, 2)), ("num_heads", (2, 4)),
    ("num_attention_heads", (2, 4)), ("window_size", 4),
)  # fmt: skip
_T5 = (("num_layers", 2), ("num_decoder_layers", 2), ("decoder_start_token_id", 0))

FAMILIES = [
    *(Family(name, "dense") for name in (
        "llama", "mistral", "ministral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "gptj",
        "gpt_bigcode", "codegen", "opt", "bloom", "mpt", "phi", "phi3", "olmo", "olmo2", "olmo3", "cohere", "cohere2",
        "glm", "glm4", "granite", "helium", "nemotron", "persimmon", "exaone4", "diffllama", "bitnet", "smollm3",
        "stablelm", "starcoder2", "seed_oss",
    )),
    *(Family(name, "MoE") for name in (
        "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "flex_olmo", "gpt_oss", "phimoe", "granitemoe", "llama4_text",
        "ernie4_5_moe", "glm4_moe", "hunyuan_v1_moe", "minimax_m2",
    )),
    Family("deepseek_v3", "MoE", changes=(("num_key_value_heads", 4), ("qk_rope_head_dim", 8), ("head_dim", 8))),
    *(Family(name, "encoder-decoder", "AutoModelForSeq2SeqLM") for name in (
        "bart", "mbart", "pegasus", "marian", "blenderbot", "mvp", "m2m_100", "led",
    )),
    *(Family(name, "encoder-decoder", "AutoModelForSeq2SeqLM", _T5) for name in ("t5", "mt5", "umt5", "longt5")),
    Family("switch_transformers", "MoE, encoder-decoder", "AutoModelForSeq2SeqLM", _T5),
    *(Family(name, "vision", "AutoModelForImageClassification", batch="image") for name in (
        "vit", "beit", "dinov2", "dinov2_with_registers", "ijepa", "data2vec-vision",
    )),
    *(Family(name, "vision", "AutoModelForImageClassification", _STAGES, batch="image") for name in ("swin", "swinv2")),
    *(Family(name, "audio", "AutoModelForCTC", _SMALL_SOUND, batch="sound") for name in (
        "wav2vec2", "hubert", "wavlm",
    )),
    *(Family(name, "state-space") for name in ("mamba", "falcon_mamba")),
    Family("mamba2", "state-space", changes=(("num_heads", 8), ("chunk_size", 8))),
    *(Family(name, "hybrid") for name in ("jamba", "bamba", "lfm2", "nemotron_h", "olmo_hybrid", "granitemoehybrid")),
    *(Family(name, "encoder", "AutoModelForMaskedLM") for name in (
        "bert", "roberta", "electra", "deberta-v2", "distilbert", "modernbert", "esm",
    )),
]  # fmt: skip
BY_NAME = {family.name: family for family in FAMILIES}
