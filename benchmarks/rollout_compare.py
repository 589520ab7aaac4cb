"""Runs bench_rollout and transformers' generate in turns and prints tokens a second, as a table in markdown.

usage: rollout_compare.py <bench_rollout> <python with torch and transformers> [--turns 3] [--scratch DIR] [...]

Both sides open the same checkpoint of SmolLM2-135M's shape, which the peer writes into the scratch folder (540 MB, kept
if it was named). Further options go to both sides: see rollout_peer.py.
"""
import argparse
import contextlib
import pathlib
import tempfile

from turns import in_turns, run

LOGPROB_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}
AIM = 1.5


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("python")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", default="float32", choices=LOGPROB_TOLERANCE)
    parser.add_argument("--scratch", type=pathlib.Path)
    return parser.parse_known_args()


def checkpoint(python, scratch):
    directory = scratch / "smollm2"
    if not directory.exists():
        maker = pathlib.Path(__file__).with_name("model_peer.py")
        run([python, maker, "make", directory, "--shape", "smollm2"])
    return directory


def check_same_work(ours, peer, tolerance):
    mine, theirs = ours[0]["greedy_logprobs"], peer[0]["greedy_logprobs"]
    apart = max(abs(a - b) for a, b in zip(mine, theirs, strict=True))
    if apart > tolerance:
        raise SystemExit(f"greedy log-probabilities are {apart} apart, so the sides do not do the same work")
    return apart


def main():
    arguments, shared = parse()
    with contextlib.ExitStack() as stack:
        scratch = arguments.scratch or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared += ["--model", str(checkpoint(arguments.python, scratch)), "--dtype", arguments.dtype]
        peer_script = pathlib.Path(__file__).with_name("rollout_peer.py")
        sides = [[arguments.program, *shared], [arguments.python, peer_script, *shared]]
        ours, peer = in_turns(sides, arguments.turns)
    apart = check_same_work(ours, peer, LOGPROB_TOLERANCE[arguments.dtype])
    print(f"\nGreedy log-probabilities are at most {apart:.1e} apart.\n")
    print("| | reprise | transformers | ratio | aim |")
    print("|---|---|---|---|---|")
    for label, field, aim in (
        ("generated tokens/s", "tokens_per_second", f"at least {AIM}"),
        ("generated tokens per second of CPU time", "tokens_per_cpu_second", ""),
    ):
        # The most over the turns: other work on the machine only slows.
        mine, theirs = (max(result[field] for result in side) for side in (ours, peer))
        print(f"| {label} | {mine:.1f} | {theirs:.1f} | {mine / theirs:.2f} | {aim} |")


if __name__ == "__main__":
    main()
