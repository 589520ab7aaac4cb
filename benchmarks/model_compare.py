"""Runs bench_model and its Python peer in turns and prints what a step and a load cost, as tables in markdown.

usage: model_compare.py <bench_model> [python with torch and transformers] [--turns 3] [--steps 5] [--scratch DIR]

Both sides open the same checkpoints, which the peer writes into the scratch folder (1.5 GB, kept if it was named),
so that their losses must agree. Without a peer our side runs alone, on random weights, and loads nothing.
"""
import argparse
import contextlib
import pathlib
import subprocess
import tempfile

from turns import in_turns, run

LOSS_TOLERANCE = 1e-4
PEER = pathlib.Path(__file__).with_name("model_peer.py")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("python", nargs="?")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=pathlib.Path)
    return parser.parse_args()


def has_transformers(python):
    return subprocess.run([python, "-c", "import transformers"], capture_output=True).returncode == 0


def least(results, field):
    """Over the turns, each of which already is a median of steps: other work on the machine only adds."""
    return min(result[field] for result in results)


def figures(ours, peer, field, scale):
    """Cells of a table: ours, the peer's, and ours over the peer's."""
    mine = least(ours, field)
    if peer is None:
        return f"{mine / scale:.1f} | |"
    theirs = least(peer, field)
    return f"{mine / scale:.1f} | {theirs / scale:.1f} | {mine / theirs:.2f}"


def checkpoint(peer, scratch, shape):
    directory = scratch / shape
    if not directory.exists():
        run([*peer, "make", directory, "--shape", shape])
    return directory


def measure(sides, arguments, turns):
    """Results of our side and of the peer, None where there is no peer."""
    results = in_turns([[*side, *arguments] for side in sides], turns)
    return results[0], results[1] if len(results) > 1 else None


def check_losses(ours, peer):
    mine, theirs = least(ours, "loss"), least(peer, "loss")
    if abs(mine - theirs) > LOSS_TOLERANCE * abs(theirs):
        raise SystemExit(f"the losses differ, so the sides do not do the same work: {mine} and {theirs}")


def compare_steps(sides, arguments, model):
    options = ["step", *(["--model", model] if model else [])]
    for name in ("batch", "tokens", "steps", "threads"):
        options += [f"--{name}", str(getattr(arguments, name))]
    print(f"\nForward and backward, {arguments.batch} x {arguments.tokens} tokens, {arguments.threads} threads\n")
    print("| mode | ms, reprise | transformers | ratio | peak MB, reprise | transformers | ratio | loss |")
    print("|---|---|---|---|---|---|---|---|")
    for label, flag in (("plain", []), ("checkpoint", ["--checkpoint"])):
        ours, peer = measure(sides, options + flag, arguments.turns)
        if peer:
            check_losses(ours, peer)
        time, peak = figures(ours, peer, "ms", 1), figures(ours, peer, "peak_bytes", 1e6)
        print(f"| {label} | {time} | {peak} | {least(ours, 'loss'):.5f} |", flush=True)


def compare_loads(sides, arguments, directory):
    ours, peer = measure(sides, ["load", directory, "--threads", str(arguments.threads)], arguments.turns)
    weights = least(peer, "weight_bytes")
    print(f"\nLoad of {weights / 1e6:.0f} MB of weights, the file in the page cache\n")
    print("| | reprise | transformers | ratio |")
    print("|---|---|---|---|")
    print(f"| opened, ms | {figures(ours, peer, 'open_ms', 1)} |")
    print(f"| opened and every weight read, ms | {figures(ours, peer, 'ms', 1)} |")
    print(f"| peak MB | {figures(ours, peer, 'peak_bytes', 1e6)} |")
    mine, theirs = least(ours, "peak_bytes") / weights, least(peer, "peak_bytes") / weights
    print(f"| peak / weights | {mine:.3f} | {theirs:.3f} | {mine / theirs:.2f} |")


def main():
    arguments = parse()
    ours = [arguments.program]
    if not arguments.python or not has_transformers(arguments.python):
        print("no Python with transformers, so no peer")
        compare_steps([ours], arguments, model=None)
        return
    peer = [arguments.python, PEER]
    with contextlib.ExitStack() as stack:
        scratch = arguments.scratch or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        compare_steps([ours, peer], arguments, checkpoint(peer, scratch, "smollm2"))
        compare_loads([ours, peer], arguments, checkpoint(peer, scratch, "gigabyte"))


if __name__ == "__main__":
    main()
