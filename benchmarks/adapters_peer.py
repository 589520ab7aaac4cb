"""Tunes an adapter with TRL, peft and bitsandbytes, as `reprise sft` does it. Prints one JSON object.

    adapters_peer.py make MODEL ADAPTER METHOD [--init PATTERN]
        writes a new adapter of this method for MODEL, where both sides start
    adapters_peer.py run MODEL ADAPTER DATA METHOD [--steps 200] [--rate 2e-3] [--length 128]
        {"loss": [of each step], "grad_norm": [...]}
"""
import argparse
import json
import pathlib
import sys
import tempfile

# What peft's LoraConfig and bitsandbytes get for each method.
METHODS = {
    "lora": ({}, None),
    "dora": ({"use_dora": True}, None),
    "rslora": ({"use_rslora": True}, None),
    "nf4": ({}, {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
    "fp4": ({}, {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}),
}


def adapter(model, folder, method):
    import peft
    import torch
    import transformers

    torch.manual_seed(0)
    base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    config = peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=0, target_modules="all-linear", task_type="CAUSAL_LM",
                             **METHODS[method][0])
    peft.get_peft_model(base, config).save_pretrained(folder)


def run(options):
    import peft
    import torch
    import transformers
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    quantised = METHODS[options.method][1]
    extra = {}
    if quantised:
        extra["quantization_config"] = transformers.BitsAndBytesConfig(bnb_4bit_compute_dtype=torch.float32, **quantised)
    base = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32, **extra)
    model = peft.PeftModel.from_pretrained(base, options.adapter, is_trainable=True)
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder, per_device_train_batch_size=8, max_steps=options.steps, learning_rate=options.rate,
            max_length=options.length, gradient_checkpointing=False, bf16=False, use_cpu=True, logging_steps=1,
            report_to=[], save_strategy="no", disable_tqdm=True)
        data = load_dataset("json", data_files=str(options.data), split="train", cache_dir=folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        trainer = SFTTrainer(model, args=config, train_dataset=data, processing_class=tokenizer)
        trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    print(json.dumps({name: [entry[name] for entry in logged] for name in ("loss", "grad_norm")}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    make = actions.add_parser("make")
    tune = actions.add_parser("run")
    for action in (make, tune):
        action.add_argument("model", type=pathlib.Path)
        action.add_argument("adapter", type=pathlib.Path)
    tune.add_argument("data", type=pathlib.Path)
    for action in (make, tune):
        action.add_argument("method", choices=METHODS)
    tune.add_argument("--steps", type=int, default=200)
    tune.add_argument("--rate", type=float, default=2e-3)
    tune.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    if options.action == "make":
        adapter(options.model, options.adapter, options.method)
    else:
        run(options)


if __name__ == "__main__":
    sys.exit(main())
