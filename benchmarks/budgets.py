"""Memory budgets on the CPU, as a page: are they held, do they change bits, are plans as fast as policies by hand?

    budgets.py BENCH_BUDGETS [--raw FILE.jsonl] [arguments of bench_budgets]

Runs bench_budgets and writes budgets-cpu.md to $OUT if that is set, else to benchmarks/results. With --raw the lines of
an earlier run are taken, and nothing runs. Exits with an error if a budget was not held or a bit was changed.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROUNDING = 0.001  # of a budget: malloc rounds sizes up
POLICIES = {"full": "full recompute", "attention": "attention kept", "every2": "every second block",
            "matmuls": "every second matmul kept"}
SHOWN = 6  # steps between two rows of losses
MIB = 2**20


def is_held(line):
    return line["measured"] <= line["budget"] * (1 + ROUNDING)


def sweep_section(lines):
    groups = collections.defaultdict(list)
    for line in lines:
        groups[line["family"], line["lora"]].append(line)
    yield from ("## Budgets from the least to all", "",
                "| model | trained | budgets, MiB | held | used, median | prediction off by | loss and gradients |",
                "|---|---|---|---|---|---|---|")
    for (family, lora), group in [*groups.items(), (("all", None), lines)]:
        trained = {True: "LoRA", False: "all weights", None: ""}[lora]
        span = f"{group[0]['budget'] / MIB:.1f} to {group[-1]['budget'] / MIB:.1f}" if lora is not None else ""
        used = statistics.median(line["measured"] / line["budget"] for line in group)
        error = max(abs(line["measured"] / line["predicted"] - 1) for line in group)
        equal = sum(line["equal"] for line in group)
        bits = "bitwise equal" if equal == len(group) else f"DIFFERENT in {len(group) - equal}"
        yield (f"| {family} | {trained} | {span} | {sum(map(is_held, group))} of {len(group)} | {used:.1%} |"
               f" {error:.2%} | {bits} |")
    yield ""
    yield (f"Held is a peak of at most the budget and {ROUNDING:.1%} for malloc's rounding. A model's largest error of a"
           " prediction is shown. Loss and gradients are compared with those of the step without checkpointing.")


def policy_section(lines):
    yield from ("## A plan in place of a policy", "",
                "Budgets are what a llama takes under each policy; the two run in turns. Medians, with the quartiles of"
                " the ratio of one turn.", "",
                "| policy | its peak, MiB | the plan's | ms | the plan's | ratio | quartiles |",
                "|---|---|---|---|---|---|---|")
    for line in lines:
        policy, plan = (statistics.median(line[key]) for key in ("policy_ms", "plan_ms"))
        ratios = [b / a for a, b in zip(line["policy_ms"], line["plan_ms"])]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        yield (f"| {POLICIES[line['policy']]} | {line['policy_bytes'] / MIB:.2f} | {line['plan_bytes'] / MIB:.2f} |"
               f" {policy:.1f} | {plan:.1f} | {middle:.3f} | {low:.3f} to {high:.3f} |")


def learning_section(lines):
    ways = {"none": "no checkpointing", "exact": "a plan", "lossy": "a plan with `allow_lossy`"}
    yield from ("## Learning under a plan", "",
                f"Losses of {len(lines[0]['losses'])} steps with AdamW on rows of tokens that count up. Budgets lie a"
                " quarter of the way from the least to all.", "",
                f"| step | {' | '.join(ways[line['way']] for line in lines)} |", "|---|" + "---|" * len(lines))
    steps = len(lines[0]["losses"])
    for step in sorted({*range(0, steps, SHOWN), steps - 1}):
        yield f"| {step + 1} | {' | '.join(format(line['losses'][step], '.6f') for line in lines)} |"
    yield f"| peak, MiB | {' | '.join(format(line['predicted'] / MIB, '.2f') for line in lines)} |"
    yield f"| results compressed | {' | '.join(str(line['compressed']) for line in lines)} |"
    curves = {line["way"]: line["losses"] for line in lines}
    if {"none", "exact"} <= curves.keys():
        same = curves["none"] == curves["exact"]
        yield from ("", f"All {steps} losses of the plan are {'the same' if same else 'NOT the same'} to the last bit.")
    if {"exact", "lossy"} <= curves.keys():
        apart = max(abs(a - b) for a, b in zip(curves["exact"], curves["lossy"]))
        yield f"Lossy and exact plan are {apart:.2g} apart at most."


SECTIONS = {"sweep": sweep_section, "policies": policy_section, "learning": learning_section}


def page(lines, flags):
    build = [f"BUILD={os.environ['BUILD']}"] if os.environ.get("BUILD") else []
    command = " ".join([*build, "script/bench", "budgets", *flags])
    text = ["# Memory budgets on the CPU", "",
            f"`{command}`; {datetime.date.today()}, {processor()}. Times are the processor's, of one thread.", ""]
    for part, section in SECTIONS.items():
        found = [line for line in lines if line["part"] == part]
        text += [*section(found), ""] if found else []
    return "\n".join(text)


def processor():
    names = (line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name"))
    return next(names, "a processor without a name")


def failures(lines):
    for line in lines:
        if line["part"] == "sweep" and not (is_held(line) and line["equal"]):
            yield f"{line['family']} with {line['budget']} bytes: {'bits changed' if is_held(line) else 'not held'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--raw", type=pathlib.Path, help="lines that bench_budgets printed")
    options, flags = parser.parse_known_args()
    output = options.raw.read_text() if options.raw else subprocess.run(
        [options.program, *flags], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [json.loads(line) for line in output.splitlines()]
    text = page(lines, flags)
    print(text)
    folder = pathlib.Path(os.environ.get("OUT") or HERE / "results")
    (folder / "budgets-cpu.md").write_text(text)
    missed = list(failures(lines))
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
