"""Does every optimizer learn as its reference implementation does? Writes optimizers.md and optimizers.svg.

    optimizers.py PROGRAM [--steps 200] [--out benchmarks/results]

A tiny Llama learns to copy four letters, from the same weights on the same rows in the same order: `reprise sft`, and
a loop around transformers' model with torch.optim.AdamW and Muon, bitsandbytes' AdamW8bit and Lion, and transformers'
Adafactor. float32 on one thread, and bfloat16 weights where an optimizer keeps no float32 copy of them, also
with steps that bfloat16 would lose.
"""
import argparse
import json
import pathlib
import platform
import random
import statistics
import sys
import tempfile

import bitsandbytes
import torch
import transformers as hf

from learning import MODEL, Workshop, write_rows

ROWS = 16  # of a step
CASES = {  # learning rate, dtype of the weights, the reference's name, or None: the case to lie beside
    "adamw": (3e-3, "float32", "torch.optim.AdamW"),
    "adamw_8bit": (3e-3, "float32", "bitsandbytes AdamW8bit"),
    "lion": (1e-3, "float32", "bitsandbytes Lion"),
    "adafactor": (3e-3, "float32", "transformers Adafactor"),
    "muon": (3e-3, "float32", "torch.optim.Muon, AdamW"),
    "adamw, bfloat16": (3e-3, "bfloat16", None),
    "adamw_8bit, bfloat16": (3e-3, "bfloat16", "bitsandbytes AdamW8bit"),
    "adamw_bf16, bfloat16": (3e-3, "bfloat16", "torch.optim.AdamW"),
    "adafactor, bfloat16": (3e-3, "bfloat16", "transformers Adafactor"),
    "adamw, small steps": (3e-5, "float32", "torch.optim.AdamW"),
    "adamw_bf16, bfloat16, small steps": (3e-5, "bfloat16", "torch.optim.AdamW"),
    "adafactor, bfloat16, small steps": (3e-5, "bfloat16", "transformers Adafactor"),
}
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#D55E00", "#0072B2", "#CC79A7", "#0072B2",
           "#D55E00", "#CC79A7"]


def make_words():
    source = random.Random(0)
    words = sorted({"".join(source.choice("abcdefgh") for _ in range(4)) for _ in range(900)})
    source.shuffle(words)
    return words


def prepare(workshop, steps):
    words = make_words()
    (workshop.folder / "config.json").write_text(json.dumps(MODEL))
    (workshop.folder / "text.txt").write_text("\n".join(f"{word}>{word}" for word in words))
    workshop.run("init", "--config", "config.json", "--text", "text.txt", "--output", "fresh", "--vocabulary", 260)
    source = random.Random(1)
    texts = [f"{word}>{word}" for word in (source.choice(words) for _ in range(steps * ROWS))]
    write_rows(workshop.folder / "rows.jsonl", [{"text": text} for text in texts])
    return texts


def ours(workshop, case, rate, dtype, steps):
    records = workshop.train("sft", "out", "--model", "fresh", "--data", "rows.jsonl", "--shuffle", "false",
                             "--max_steps", steps, "--per_device_train_batch_size", ROWS, "--learning_rate", rate,
                             "--lr_scheduler_type", "constant", "--dtype", dtype, "--optim", case.split(",")[0])
    return [record for record in records if "loss" in record]


def reference_optimizer(name, model, rate):
    parameters = dict(model.named_parameters())
    betas = (0.9, 0.999)
    if name == "torch.optim.AdamW":
        return [torch.optim.AdamW(parameters.values(), lr=rate, betas=betas, weight_decay=0)]
    if name == "bitsandbytes AdamW8bit":
        return [bitsandbytes.optim.AdamW8bit(parameters.values(), lr=rate, betas=betas, weight_decay=0)]
    if name == "bitsandbytes Lion":
        return [bitsandbytes.optim.Lion(parameters.values(), lr=rate, betas=betas)]
    if name == "transformers Adafactor":
        return [hf.optimization.Adafactor(parameters.values(), lr=rate, scale_parameter=False, relative_step=False)]
    hidden = [value for key, value in parameters.items() if value.dim() == 2 and "layers." in key]
    others = [value for key, value in parameters.items() if not (value.dim() == 2 and "layers." in key)]
    return [torch.optim.Muon(hidden, lr=rate, weight_decay=0, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=rate, betas=betas, weight_decay=0)]


def reference(workshop, texts, name, rate, dtype):
    folder = workshop.folder / "fresh"
    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), attn_implementation="eager")
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    rows = [tokenizer(text)["input_ids"] + [model.config.eos_token_id] for text in texts]
    optimizers = reference_optimizer(name, model, rate)
    losses = []
    for begin in range(0, len(rows), ROWS):
        batch = rows[begin:begin + ROWS]
        longest = max(map(len, batch))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
        loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def last(losses):
    return statistics.mean(losses[-20:])


def smoothed(losses, window=10):
    return [statistics.mean(losses[max(0, i - window + 1):i + 1]) for i in range(len(losses))]


def draw(results, path):
    width, height, left, top, right, bottom = 900, 480, 60, 30, 240, 50
    most = max(max(run["ours"]) for run in results.values())
    steps = max(len(run["ours"]) for run in results.values())

    def x(step):
        return left + step / (steps - 1) * (width - left - right)

    def y(loss):
        return height - bottom - loss / most * (height - top - bottom)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for loss in range(int(most) + 1):
        lines.append(f'<path d="M{left} {y(loss):.1f}H{width - right}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for step in range(0, steps + 1, 50):
        lines.append(f'<text x="{x(min(step, steps - 1)):.1f}" y="{height - bottom + 18}" text-anchor="middle">'
                     f"{step}</text>")
    lines.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">step; loss, mean of '
                 "ten; solid: reprise, dotted: reference</text>")
    for i, (case, run) in enumerate(results.items()):
        for side, dash in (("ours", ""), ("reference", ' stroke-dasharray="2 3"')):
            if run[side]:
                points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in enumerate(smoothed(run[side])))
                lines.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.5"{dash} '
                             f'opacity="{0.45 if "bfloat16" in case else 1}"/>')
        lines.append(f'<text x="{width - right + 12}" y="{top + 20 * i + 10}" fill="{COLOURS[i]}">{case}</text>')
    path.write_text("\n".join([*lines, "</svg>\n"]))


def processor():
    models = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{len(models)} x {models[0]}" if models else platform.machine()


def apart(run, steps):
    differences = [abs(a - b) for a, b in zip(run["ours"][:steps], run["reference"][:steps])]
    return f"{max(differences):.0e}" if differences else ""


def table(results, steps):
    rows = ["| optimizer | learning rate | first loss | last 20 steps | reference | its last 20 steps | apart in 10 "
            f"steps | in 50 | in {steps} | optimizer, bytes per parameter |", "|---" * 10 + "|"]
    for case, run in results.items():
        found, expected = run["ours"], run["reference"]
        rows.append(f"| {case} | {run['rate']:g} | {found[0]:.4f} | {last(found):.3f} | {run['name'] or ''} | "
                    f"{f'{last(expected):.3f}' if expected else ''} | {apart(run, 10)} | {apart(run, 50)} | "
                    f"{apart(run, steps)} | {run['bytes']:.2f} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    hf.utils.logging.disable_progress_bar()
    results = {}
    with tempfile.TemporaryDirectory() as name:
        workshop = Workshop(options.program.resolve(), pathlib.Path(name), threads=1)
        texts = prepare(workshop, options.steps)
        for case, (rate, dtype, peer) in CASES.items():
            records = ours(workshop, case, rate, dtype, options.steps)
            memory = records[-1]["memory"]
            count = memory["parameters"] / (4 if dtype == "float32" else 2)
            results[case] = {"ours": [record["loss"] for record in records], "rate": rate, "name": peer,
                             "reference": reference(workshop, texts, peer, rate, dtype) if peer else [],
                             "bytes": memory["optimizer"] / count}
            print(case, f"{last(results[case]['ours']):.4f}", peer or "", flush=True)
    lines = ["# Optimizers, beside their reference implementations", "",
             f"`benchmarks/optimizers.py build/bin/reprise --steps {options.steps}` on {processor()}, one thread; "
             f"torch {torch.__version__}, transformers {hf.__version__}, bitsandbytes {bitsandbytes.__version__}.", "",
             f"A Llama of {MODEL['num_hidden_layers']} blocks of width {MODEL['hidden_size']} learns to copy four "
             f"random letters: {ROWS} new rows a step, from the same weights, in the same order, with a constant "
             "learning rate. Half of every row cannot be predicted, so the loss cannot come near zero. \"Apart\" is "
             "the largest difference of a step's loss from the reference's.", "", *table(results, options.steps), "",
             "![Loss by step](optimizers.svg)", "",
             "In float32 the differences are those of two implementations of the model, which grow from step to step; "
             "the fixtures of the tests, which have the same gradients, are where updates are compared to the last "
             "bit. With bfloat16 weights the references round updates to nearest: at a rate of 3e-3 most updates are "
             "large enough for that, at 3e-5, as in fine-tuning, most are lost. `adamw` keeps a float32 copy, the "
             "others of ours round stochastically ([how](../../docs/optimizers.md#without-a-float32-copy))."]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "optimizers.md").write_text("\n".join(lines) + "\n")
    draw(results, options.out / "optimizers.svg")
    missed = [case for case, run in results.items() if "small" not in case and last(run["ours"]) >= run["ours"][0] / 2]
    if missed:
        sys.exit("does not learn: " + ", ".join(missed))


if __name__ == "__main__":
    main()
