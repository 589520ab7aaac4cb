"""Supervised fine-tuning with TRL, as `reprise sft` does it. Prints one JSON object.

    train_peer.py make DIR
        writes DIR/model (random weights of SmolLM2-135M's shape, a tokenizer) and DIR/data.jsonl
    train_peer.py run DIR [--steps 5] [--batch 4] [--length 410] [--threads 2]
        {"start_ms" (process start to the first step), "step_ms" (each), "tokens" (of each step), "loss" (of each step)}
"""
import argparse
import json
import os
import pathlib
import random
import time

START = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + (
    int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
)  # when the process began: imports are part of starting

WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by".split()
ROWS = 64


def make(folder, length):
    import model_peer
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([" ".join(WORDS)] * 4, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    model = model_peer.fresh_model("smollm2")
    model.save_pretrained(folder / "model")
    fast.save_pretrained(folder / "model")
    choose = random.Random(0)
    with open(folder / "data.jsonl", "w") as data:
        for _ in range(ROWS):
            words = []
            while len(fast(" ".join(words))["input_ids"]) < length:
                words.append(choose.choice(WORDS))
            print(json.dumps({"text": " ".join(words)}), file=data)


def run(folder, arguments):
    import torch

    torch.set_num_threads(arguments.threads)
    from datasets import load_dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    class Clock(TrainerCallback):
        def __init__(self):
            self.begins, self.ends = [], []

        def on_step_begin(self, *_, **__):
            self.begins.append(time.time())

        def on_step_end(self, *_, **__):
            self.ends.append(time.time())

    clock = Clock()
    config = SFTConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=arguments.batch, max_steps=arguments.steps,
        max_length=arguments.length, gradient_checkpointing=True, bf16=False, use_cpu=True, logging_steps=1,
        report_to=[], save_strategy="no", disable_tqdm=True, model_init_kwargs={"dtype": "float32"},
    )
    data = load_dataset("json", data_files=str(folder / "data.jsonl"), split="train")
    trainer = SFTTrainer(str(folder / "model"), args=config, train_dataset=data, callbacks=[clock])
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    totals = [0] + [entry["num_tokens"] for entry in logged]
    print(json.dumps({
        "start_ms": (clock.begins[0] - START) * 1000,
        "step_ms": [(end - begin) * 1000 for begin, end in zip(clock.begins, clock.ends)],
        "tokens": [b - a for a, b in zip(totals, totals[1:])],
        "loss": [entry["loss"] for entry in logged],
    }))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=410)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.action == "make":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        make(arguments.folder, arguments.length)
    else:
        run(arguments.folder, arguments)


if __name__ == "__main__":
    main()
