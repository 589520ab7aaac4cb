#!/usr/bin/env python3
"""Checks what CMake says of a LibTorch that will not do: Reprise's own tree, and an installed package.

Usage: check_torch.py CMAKE SOURCE WORK [PREFIX]; PREFIX has an installed Reprise.
"""
import pathlib
import shutil
import subprocess
import sys

CMAKE, SOURCE, WORK = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
PREFIX = sys.argv[4] if len(sys.argv) > 4 else None
NEW_ABI = b"_ZN3c105ErrorC1ENSt7__cxx1112basic_string\0"


def fake_torch(name, version, *, abi=NEW_ABI, debug=False, headers=True):
    """What CMake looks at in an installed torch package."""
    root = WORK / name / "torch"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "libtorch_cpu.so").write_bytes(b"")
    (root / "lib" / "libc10.so").write_bytes(abi)
    (root / "version.py").write_text(f"__version__ = '{version}'\ndebug = {debug}\n", encoding="utf-8")
    if headers:
        (root / "include/ATen").mkdir(parents=True)
        (root / "include/ATen/ATen.h").write_text("", encoding="utf-8")
        (root / "include/torch/headeronly").mkdir(parents=True)
        parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
        (root / "include/torch/headeronly/version.h").write_text(
            "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in parts), encoding="utf-8")
    return root


def project(name, *lines):
    folder = WORK / f"{name}-project"
    folder.mkdir(parents=True)
    text = ["cmake_minimum_required(VERSION 3.25)", "project(asks LANGUAGES NONE)", *lines]
    (folder / "CMakeLists.txt").write_text("\n".join(text), encoding="utf-8")
    return folder


def expect(what, folder, torch, words):
    run = subprocess.run([CMAKE, "-S", folder, "-B", WORK / f"{what}-build", f"-DREPRISE_TORCH={torch}"],
                         capture_output=True, text=True, check=False)
    said = " ".join((run.stdout + run.stderr).split())
    missing = [word for word in words if word not in said]
    if run.returncode == 0 or missing:
        sys.exit(f"{what}: exit code {run.returncode}, and CMake does not say {missing}:\n{said}")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    ours = project("ours", f"list(PREPEND CMAKE_MODULE_PATH {SOURCE}/cmake)", "include(TorchVersions)",
                   "find_package(LibTorch REQUIRED)", "reprise_check_torch()")
    advice = ["2.11.0", "2.15.0", "REPRISE_TORCH", "REPRISE_TORCH_VERSION"]
    for what, torch, words in [
            ("older", fake_torch("older", "2.10.0"), ["LibTorch 2.10.0", "is not a version", *advice]),
            ("newer", fake_torch("newer", "2.99.1"), ["LibTorch 2.99.1", "is not a version", *advice]),
            ("minor", fake_torch("minor", "2.1.0"), ["LibTorch 2.1.0", "is not a version", *advice]),
            ("debug", fake_torch("debug", "2.15.0", debug=True), ["is a debug build", *advice]),
            ("abi", fake_torch("abi", "2.15.0", abi=b"_ZN3c105ErrorC1ESs\0"), ["old ABI of std::string", *advice]),
            ("bare", fake_torch("bare", "2.15.0", headers=False), ["REPRISE_TORCH", "include/ and lib/"])]:
        expect(what, ours, torch, words)
    if PREFIX:
        theirs = project("theirs", f"list(PREPEND CMAKE_PREFIX_PATH {PREFIX})", "find_package(Reprise REQUIRED)")
        expect("package", theirs, fake_torch("other", "2.12.7"),
               ["built with LibTorch", "LibTorch 2.12.7 was found", "build Reprise again"])


if __name__ == "__main__":
    main()
