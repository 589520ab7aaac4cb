#!/usr/bin/env python3
"""Writes the files of script/wheels: the wheels that script/setup fetches, with the hashes of their files.

Usage: tools/pin_wheels.py torch==2.15.0 nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86
       tools/pin_wheels.py --python ENVIRONMENT

The first writes <version of torch>.txt; the CUDA libraries are those that torch's cuda-toolkit requires. The second writes
python.txt, what the Python tests need beside torch, in the versions that are installed in ENVIRONMENT, a virtual
environment in which the tests pass, and wheel.txt, what builds the package. Asks pip which files it would install on Linux, for each Python and processor. Look at
the difference before you commit it: from then on, everybody installs exactly these files or none.
"""
import concurrent.futures
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
# What tests/python imports, and torch itself needs; the rest follows from their metadata.
OF_THE_TESTS = ("torch", "setuptools", "pytest", "numpy", "transformers", "accelerate", "peft", "trl")
OF_THE_BUILD = ("scikit-build-core",)
# Run by the environment's Python: name==version of the given packages and of all that they need, but torch and CUDA's.
LIST = """
import importlib.metadata, re, sys
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
found, wanted = {}, [Requirement(name) for name in sys.argv[1:]]
while wanted:
    name = canonicalize_name(wanted.pop().name)
    if name in found or re.match("nvidia-|cuda-|triton$", name):
        continue
    package = importlib.metadata.distribution(name)
    found[name] = package.version
    needed = map(Requirement, package.requires or [])
    wanted += [one for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
found.pop("torch", None)
print("\\n".join(f"{name}=={version}" for name, version in sorted(found.items())))
"""


def file_of(wheel, python, processor):
    """The name and the SHA-256 of the file that pip chooses; None if there is none."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
               "--only-binary", ":all:", "--target", "unused", "--python-version", python, "--report", "-", wheel]
    for glibc in range(NEWEST_GLIBC, 4, -1):
        command += ["--platform", f"manylinux_2_{glibc}_{processor}"]
    command += ["--platform", f"manylinux2014_{processor}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None
    file = json.loads(result.stdout)["install"][0]["download_info"]
    return file["url"].rpartition("/")[2], file["archive_info"]["hashes"]["sha256"]


def pinned(wheel):
    found = set()
    for python in reversed(PYTHONS):
        for processor in PROCESSORS:
            file = file_of(wheel, python, processor)
            found.add(file and file[1])
            if file and file[0].endswith("-py3-none-any.whl"):  # the same for all
                return f"{wheel} \\\n    --hash=sha256:{file[1]}"
    found -= {None}
    if not found:
        sys.exit(f"{wheel}: pip finds no Linux wheel of this version")
    return " \\\n".join([wheel, *(f"    --hash=sha256:{digest}" for digest in sorted(found))])


def needed(environment, names):
    """What these packages need, as name==version."""
    command = [pathlib.Path(environment) / "bin" / "python", "-c", LIST, *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def write(target, wheels):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        lines = list(pool.map(pinned, wheels))
    target.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def main():
    wheels = sys.argv[1:]
    if len(wheels) == 2 and wheels[0] == "--python":
        write(FOLDER / "python.txt", needed(wheels[1], OF_THE_TESTS))
        write(FOLDER / "wheel.txt", needed(wheels[1], OF_THE_BUILD))
    elif not wheels or any(wheel.startswith("-") for wheel in wheels):
        sys.exit(__doc__)
    elif not wheels[0].startswith("torch=="):
        sys.exit("expected torch==<version> first, which names the file")
    else:
        write(FOLDER / f"{wheels[0].removeprefix('torch==')}.txt", wheels)


if __name__ == "__main__":
    main()
