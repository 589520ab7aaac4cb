#!/usr/bin/env python3
"""Checks that #include lines only point down the list of layers.

The folders are stages that data passes through; a file may include its own layer and the layers
below it. Anything else makes a cycle of ideas, even where the compiler does not mind.
"""
import pathlib
import re
import subprocess
import sys

# Top to bottom. Folders on one line are one layer. A subfolder that is not named belongs to its parent's layer.
LAYERS = [
    ("apps",),
    ("src/train", "include/reprise/train"),
    ("src/report", "include/reprise/report"),
    ("src/reward", "include/reprise/reward"),
    ("src/loss", "include/reprise/loss"),
    ("src/data", "include/reprise/data"),
    ("src/convert", "include/reprise/convert"),
    ("src/text", "include/reprise/text"),
    ("src/jinja", "include/reprise/jinja"),
    ("src/text/unicode",),
    ("src/parallel", "include/reprise/parallel"),
    ("src/model", "include/reprise/model"),
    ("src/optim", "include/reprise/optim"),
    ("src/io", "include/reprise/io"),
    ("src/dist", "include/reprise/dist"),
    ("src/ops", "include/reprise/ops", "src/quant", "include/reprise/quant"),
    ("src/plan",),
    ("src/plan/solve",),
    ("src/plan/cost",),
    ("src/plan/trace",),
    ("src/plan/measure",),
    ("src/memory",),
    ("src/checkpoint",),
    ("include",),
]
RANK = {folder: rank for rank, layer in enumerate(LAYERS) for folder in layer}

# Reprise::checkpoint is these folders and LibTorch; it cannot use what is linked on top of it.
CHECKPOINT_LIBRARY = {"src/plan", "src/plan/solve", "src/plan/cost", "src/plan/trace",
                      "src/plan/measure", "src/memory", "src/checkpoint", "include"}
# These show or measure what users have, so they see what users see.
PUBLIC_ONLY = ("examples/", "tests/consumer/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def repository_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [path for path in listing.split() if pathlib.Path(path).exists()]


def folder_of(path):
    """The layer folder that a repository path lies in (the innermost one), or None."""
    if path == "include/reprise/train.h":  # the header that includes all of Reprise::train
        return "include/reprise/train"
    for folder in sorted(RANK, key=len, reverse=True):
        if path.startswith(folder + "/"):
            return folder
    return None


def resolve(path, target):
    """The repository path that an #include means, or None for LibTorch and system headers."""
    beside = pathlib.Path(path).parent / target
    for candidate in (beside, pathlib.Path("src") / target, pathlib.Path("include") / target,
                      pathlib.Path("apps") / target, pathlib.Path("tests") / target):
        if candidate.is_file():
            return candidate.as_posix()
    return None


def complaint(path, target):
    """Why `path` may not include the repository file `target`, or None."""
    source, included = folder_of(path), folder_of(target)
    if path.startswith(PUBLIC_ONLY) and not target.startswith("include/") and included is not None:
        return "examples and the consumer test use public headers only (include/reprise/)"
    if source is None or included is None:
        if source is not None and target.startswith(("tests/", "examples/", "benchmarks/")):
            return "the product does not depend on its tests, examples or benchmarks"
        return None
    if source in CHECKPOINT_LIBRARY and included not in CHECKPOINT_LIBRARY:
        return "Reprise::checkpoint is src/checkpoint + src/memory + src/plan and needs LibTorch only"
    if RANK[included] < RANK[source]:
        return (f"{source}/ is below {included}/: includes point down the list in "
                "tools/check_includes.py. Move the shared part down, or pass it in from above")
    return None


def missing_from_umbrella():
    """Public headers of Reprise::checkpoint that reprise.h does not include."""
    folder = pathlib.Path("include/reprise")
    text = (folder / "reprise.h").read_text(encoding="utf-8")
    others = {"export.h", "reprise.h", "train.h"}
    return [header.name for header in sorted(folder.glob("*.h"))
            if header.name not in others and f"<reprise/{header.name}>" not in text]


def main():
    problems = 0
    for name in missing_from_umbrella():
        print(f"include/reprise/reprise.h: does not include reprise/{name}, but promises to")
        problems += 1
    for path in repository_files():
        text = pathlib.Path(path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            match = INCLUDE.match(line)
            target = resolve(path, match.group(2)) if match else None
            reason = complaint(path, target) if target else None
            if reason:
                print(f"{path}:{number}: includes {target}: {reason}")
                problems += 1
    if problems:
        sys.exit(f"check_includes: {problems} include(s) are missing or point the wrong way")


if __name__ == "__main__":
    main()
