#!/usr/bin/env python3
"""Runs clang-tidy on files, several at a time and within a budget of seconds.

Fails when clang-tidy finds something. Files that the budget left over are named, not failed: on two
cores a file that includes torch/torch.h takes most of a minute.
"""
import argparse
import concurrent.futures
import subprocess
import sys
import time


def tidy(build, path, deadline):
    """(path, seconds, result), result: None if not reached, else (exit code, output)."""
    start = time.monotonic()
    if start >= deadline:
        return path, 0.0, None
    command = ["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", build, path]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              timeout=max(60.0, deadline - start), check=False)
    except subprocess.TimeoutExpired:
        return path, time.monotonic() - start, None
    return path, time.monotonic() - start, (done.returncode, done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=900.0)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()

    deadline = time.monotonic() + arguments.budget
    failed, left = [], []
    # The product before its tests, in case the budget ends.
    files = sorted(arguments.files, key=lambda path: (not path.startswith("src/"), path))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(tidy, arguments.build, path, deadline) for path in files]
        for run in concurrent.futures.as_completed(runs):
            path, seconds, result = run.result()
            if result is None:
                left.append(path)
                continue
            print(f"clang-tidy {path}: {seconds:.0f} s", flush=True)
            if result[0] != 0:
                failed.append(path)
                print(result[1], flush=True)
    if left:
        print(f"clang-tidy: out of time, not checked: {' '.join(sorted(left))}")
    if failed:
        sys.exit(f"clang-tidy: findings in {' '.join(sorted(failed))}")


if __name__ == "__main__":
    main()
