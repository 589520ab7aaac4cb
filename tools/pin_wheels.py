#!/usr/bin/env python3
"""Writes script/wheels/<version of torch>.txt: the wheels that script/setup fetches, with the hashes of their files.

Usage: tools/pin_wheels.py torch==2.15.0 nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86

The CUDA libraries are those that torch's cuda-toolkit requires. Asks pip which files it would install on Linux, for each
Python and processor. Look at the difference before you commit it: from then on, everybody installs exactly these files
or none.
"""
import json
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent.parent / "script" / "wheels"
HEADER = """\
# The wheels that script/setup fetches. pip refuses files with other hashes.
# Written by tools/pin_wheels.py; to change a version, run it again.
"""
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
NEWEST_GLIBC = 28  # of Debian 10 and later


def hash_of(wheel, python, processor):
    """The SHA-256 of the file that pip chooses; None if there is none."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
               "--only-binary", ":all:", "--target", "unused", "--python-version", python, "--report", "-", wheel]
    for glibc in range(NEWEST_GLIBC, 4, -1):
        command += ["--platform", f"manylinux_2_{glibc}_{processor}"]
    command += ["--platform", f"manylinux2014_{processor}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None
    return json.loads(result.stdout)["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"]


def pinned(wheel):
    found = {hash_of(wheel, python, processor) for python in PYTHONS for processor in PROCESSORS} - {None}
    if not found:
        sys.exit(f"{wheel}: pip finds no Linux wheel of this version")
    return " \\\n".join([wheel, *(f"    --hash=sha256:{digest}" for digest in sorted(found))])


def main():
    wheels = sys.argv[1:]
    if not wheels or any(wheel.startswith("-") for wheel in wheels):
        sys.exit(__doc__)
    if not wheels[0].startswith("torch=="):
        sys.exit("expected torch==<version> first, which names the file")
    target = FOLDER / f"{wheels[0].removeprefix('torch==')}.txt"
    target.write_text(HEADER + "\n".join(map(pinned, wheels)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
