#!/usr/bin/env python3
"""Checks that what script/setup fetches is what was pinned: every supported LibTorch has a file of wheels, and so have the
Python tests and the package's build; every wheel has its hashes, pip is told to demand them, and a wheel of the same name and version with other
content is refused.

Usage: check_wheels.py ROOT: the root of the repository. Needs no network.
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile


def without_breaks(text):
    return re.sub(r"\\\n\s*", " ", text)


def pinned(path):
    """The lines of a file of requirements."""
    return [line for line in without_breaks(path.read_text()).splitlines() if line and not line.startswith("#")]


def faults_of_hashes(path):
    for line in pinned(path):
        if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+( +--hash=sha256:[0-9a-f]{64})+ *", line):
            yield f"{path.name}: expected name==version with hashes, found {line[:60]!r}"


def faults_of_versions(path, files):
    supported = re.search(r"REPRISE_TORCH_VERSIONS ([0-9. ]+)\)", path.read_text()).group(1).split()
    if sorted(supported) != sorted(file.stem for file in files):
        yield f"{path.name} lists {supported}, but script/wheels has {[file.name for file in files]}"
    for file in files:
        if not pinned(file)[0].startswith(f"torch=={file.stem} "):
            yield f"{file.name}: its first wheel is not torch=={file.stem}"


def faults_of_setup(path):
    commands = [line for line in without_breaks(path.read_text()).splitlines() if "pip install" in line]
    if not commands:
        yield f"{path.name}: has no pip install: this test looks for another command"
    for command in commands:
        if "--require-hashes" not in command or '--requirement "$file"' not in command:
            yield f"{path.name}: installs without --require-hashes: {command.strip()}"


def faults_of_pip(path):
    """Offers a forged wheel to pip, which must not take it."""
    if importlib.util.find_spec("pip") is None:
        return
    name, version = pinned(path)[0].split()[0].split("==")
    with tempfile.TemporaryDirectory() as folder:
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        command = [sys.executable, "-m", "pip", "install", "--isolated", "--dry-run", "--ignore-installed", "--no-deps",
                   "--no-index", "--find-links", folder, "--requirement"]
        result = subprocess.run([*command, path, "--require-hashes"], capture_output=True, text=True, check=False)
        if result.returncode == 0 or "hash" not in result.stderr.lower():
            yield f"pip took a forged wheel, or refused it for another reason: {result.stdout}{result.stderr}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    files = sorted((root / "script" / "wheels").glob("*.txt"))
    of_torch = [file for file in files if file.stem not in ("python", "wheel")]
    found = [*faults_of_versions(root / "cmake" / "TorchVersions.cmake", of_torch),
             *faults_of_setup(root / "script" / "setup"), *faults_of_pip(of_torch[0])]
    if len(files) != len(of_torch) + 2:
        found.append("script/wheels has no python.txt, of the Python tests, or no wheel.txt, of the package's build")
    for file in files:
        found += faults_of_hashes(file)
    print("\n".join([*found, f"{len(files)} files of wheels looked at"]))
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main()
