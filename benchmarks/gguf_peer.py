#!/usr/bin/env python3
"""Exports tiny random models and compares llama.cpp's logits with those of transformers.

    python benchmarks/gguf_peer.py build/bin/reprise [family ...]

needs torch, transformers and llama-cpp-python. A line for each family: the largest difference of a logit, as a share of
the largest logit, for every type; and how many of the greedy tokens are equal. Keys and values are cached in float32."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as hf
from llama_cpp import Llama
from tokenizers import Tokenizer

TOKENIZERS = pathlib.Path(__file__).parents[1] / "tests" / "fixtures" / "tokenizers"
TOKENS = 48
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=256, initializer_range=0.3)
GROUPED = SIZES | dict(num_key_value_heads=2, rms_norm_eps=1e-5)


def rope(kind, **more):
    return {"rope_parameters": dict(rope_type=kind, rope_theta=10000.0, **more)}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=64)
CASES = {
    "llama": (hf.LlamaConfig, GROUPED | dict(tie_word_embeddings=True), "llama3"),
    "llama, llama3 rope, biases": (hf.LlamaConfig, GROUPED | dict(attention_bias=True, mlp_bias=True) | LLAMA3, "smollm"),
    "llama, yarn rope": (hf.LlamaConfig, GROUPED | YARN, "smollm"),
    "llama, linear rope": (hf.LlamaConfig, GROUPED | rope("linear", factor=4.0), "gpt2"),
    "mistral": (hf.MistralConfig, GROUPED | dict(sliding_window=None), "gpt2"),
    "qwen2": (hf.Qwen2Config, GROUPED | dict(tie_word_embeddings=True), "qwen2"),
    "qwen3": (hf.Qwen3Config, GROUPED | dict(head_dim=32), "qwen2"),
    "gpt2": (hf.GPT2Config, dict(n_embd=64, n_layer=2, n_head=4, n_positions=256, initializer_range=0.3), "gpt2"),
    "gpt_neox": (hf.GPTNeoXConfig, SIZES, "gpt2"),
    "gemma": (hf.GemmaConfig, GROUPED | dict(head_dim=32, hidden_activation="gelu_pytorch_tanh"), "gemma"),
    "gemma2": (hf.Gemma2Config, GROUPED | dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=16), "gemma"),
    "gemma3_text": (hf.Gemma3TextConfig, GROUPED | dict(num_hidden_layers=6, head_dim=32, query_pre_attn_scalar=32,
                                                        sliding_window=16), "gemma"),
    "phi3": (hf.Phi3Config, GROUPED, "phi4"),
    "smollm3": (hf.SmolLM3Config, GROUPED | dict(num_hidden_layers=4), "llama3"),
    "olmo2": (hf.Olmo2Config, GROUPED, "phi4"),
    "granite": (hf.GraniteConfig, GROUPED | dict(embedding_multiplier=12.0, residual_multiplier=0.25, logits_scaling=8.0,
                                                 attention_multiplier=0.125), "smollm"),
    "glm4": (hf.Glm4Config, GROUPED | dict(head_dim=16, attention_bias=True), "glm4"),
    "starcoder2": (hf.Starcoder2Config, SIZES | dict(num_key_value_heads=2), "smollm"),
    "stablelm": (hf.StableLmConfig, SIZES | dict(num_key_value_heads=2, use_qkv_bias=True), "gpt2"),
    "phi": (hf.PhiConfig, SIZES, "codegen"),
    "cohere2": (hf.Cohere2Config, SIZES | dict(num_hidden_layers=4, num_key_value_heads=2, sliding_window=16), "cohere2"),
}


def make(folder, config_class, sizes, tokenizer):
    """A model whose norms and biases are random too, and its logits."""
    vocabulary = Tokenizer.from_file(str(TOKENIZERS / tokenizer / "tokenizer.json")).get_vocab_size()
    torch.manual_seed(0)
    config = config_class(vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, pad_token_id=None, **sizes)
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or ".ln_" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
        ids = [(7 * i * i + 3 * i + 5) % 250 for i in range(TOKENS)]
        logits = model(torch.tensor([ids])).logits[0].numpy()
    model.save_pretrained(folder)
    for file in (TOKENIZERS / tokenizer).iterdir():
        shutil.copy(file, folder)
    return ids, logits


def compare(file, ids, expected):
    model = Llama(str(file), n_ctx=256, logits_all=True, verbose=False, flash_attn=False, type_k=0, type_v=0)
    model.eval(ids)
    found = np.array(model.scores[: len(ids)])
    error = np.abs(found - expected).max() / np.abs(expected).max()
    return error, int((found.argmax(1) == expected.argmax(1)).sum())


if __name__ == "__main__":
    program, chosen = sys.argv[1], sys.argv[2:]
    print("| model | f32 | f16 | bf16 | q8_0 |\n|---|---|---|---|---|")
    for name, case in CASES.items():
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "model"
            ids, logits = make(folder, *case)
            cells = []
            for kind in ("f32", "f16", "bf16", "q8_0"):
                file = folder.parent / f"{kind}.gguf"
                subprocess.run([program, "export", folder, file, "--type", kind], check=True, capture_output=True)
                error, equal = compare(file, ids, logits)
                cells.append(f"{error:.0e}, {equal}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
