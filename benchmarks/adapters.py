"""`reprise sft` with adapters against TRL, peft and bitsandbytes: the same base, first adapter and rows; loss per step.

    adapters.py PROGRAM PYTHON [--steps 200] [--methods lora dora rslora nf4 fp4]

PYTHON has torch, trl, peft and bitsandbytes. The base is a tiny model that `reprise sft` trained on one half of the
text before; the adapter is tuned on rows of another kind. Prints a table and, with --out, a page of curves.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import curves

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 192,
         "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
         "vocab_size": 300, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "initializer_range": 0.05}
# The flags of reprise sft; what the adapter is stands in its folder.
METHODS = {
    "lora": [],
    "dora": [],
    "rslora": [],
    "nf4": ["--load_in_4bit", "--bnb_4bit_quant_type", "nf4", "--bnb_4bit_use_double_quant"],
    "fp4": ["--load_in_4bit", "--bnb_4bit_quant_type", "fp4"],
}


def call(command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stderr[-3000:]}")
    return result.stdout


def sums(source, count, most):
    """Rows of one kind of text: additions, or subtractions."""
    for _ in range(count):
        a, b = source.randrange(most), source.randrange(most)
        yield a, b


def write(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def train(program, folder, output, *flags):
    call([program, "sft", "--output_dir", folder / output, "--device", "cpu", "--save_steps", 0,
          "--per_device_train_batch_size", 8, "--max_length", 128, "--cache_dir", folder / "cache", *flags])
    return [json.loads(line) for line in (folder / output / "metrics.jsonl").read_text().splitlines()]


def prepare(program, folder):
    source = random.Random(0)
    first = [" ".join(f"{a}+{b}={a + b};" for a, b in sums(source, 8, 100)) for _ in range(1600)]
    second = [" ".join(f"{a}-{b}={a - b};" for a, b in sums(source, 8, 100)) for _ in range(1600)]
    (folder / "config.json").write_text(json.dumps(MODEL))
    (folder / "text.txt").write_text("\n".join(first + second))
    write(folder / "first.jsonl", first)
    write(folder / "second.jsonl", second)
    call([program, "init", "--config", folder / "config.json", "--text", folder / "text.txt",
          "--output", folder / "fresh", "--vocabulary", 300])
    train(program, folder, "base", "--model", folder / "fresh", "--data", folder / "first.jsonl", "--max_steps", 200,
          "--learning_rate", 3e-3)


def tune(options, folder, method):
    peer = pathlib.Path(__file__).with_name("adapters_peer.py")
    start = folder / f"start-{method}"
    call([options.python, peer, "make", folder / "base", start, method])
    ours = train(options.program, folder, f"ours-{method}", "--model", folder / "base", "--adapter", start,
                 "--data", folder / "second.jsonl", "--max_steps", options.steps, "--learning_rate", options.rate,
                 *METHODS[method])
    theirs = json.loads(call([options.python, peer, "run", folder / "base", start, folder / "second.jsonl", method,
                              "--steps", options.steps, "--rate", options.rate]).strip().splitlines()[-1])
    return [step["loss"] for step in ours], theirs["loss"]


def mean_of_last(losses, count=20):
    return sum(losses[-count:]) / len(losses[-count:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=pathlib.Path, help="folder for adapters-learning.svg")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        prepare(options.program, folder)
        for method in options.methods:
            found[method] = tune(options, folder, method)
    print("| method | loss, first step: ours, theirs | last 20 steps: ours, theirs | largest difference of a step |")
    print("|---|---|---|---|")
    for method, (ours, theirs) in found.items():
        largest = max(abs(a - b) for a, b in zip(ours, theirs))
        print(f"| {method} | {ours[0]:.5f}, {theirs[0]:.5f} | {mean_of_last(ours):.5f}, {mean_of_last(theirs):.5f} | "
              f"{largest:.1e} |")
    if options.out:
        picture = curves.page("Loss of an adapter, step by step", "TRL, peft and bitsandbytes", found)
        (options.out / "adapters-learning.svg").write_text(picture)


if __name__ == "__main__":
    main()
