#!/usr/bin/env python3
"""Checks how programs and libraries load: run paths relative to themselves, and what makes them hard to attack.

Usage: check_elf.py [--release] FOLDER…: looks at every ELF file of ours in bin, tests and lib* of the folders.
--release: built with that preset, so calls that overrun buffers must be checked too.
"""
import pathlib
import re
import subprocess
import sys


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], check=True, capture_output=True, text=True).stdout


def faults(path, is_release):
    dynamic = readelf(path, "--dynamic")
    for tag, value in re.findall(r"\((RPATH|RUNPATH)\).*?\[(.*)\]", dynamic):
        for folder in value.split(":"):
            if folder != "$ORIGIN" and not folder.startswith("$ORIGIN/"):
                yield f"{tag} has {folder!r}: only folders relative to $ORIGIN may be in it"
    if "RPATH)" not in dynamic and "RUNPATH)" not in dynamic:
        yield "no RUNPATH: finds its libraries only where the system looks"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", dynamic):
        yield "symbols are bound late (no BIND_NOW)"
    if "GNU_RELRO" not in readelf(path, "--program-headers"):
        yield "its table of symbols stays writable (no RELRO)"
    if not re.search(r"Type:\s+DYN", readelf(path, "--file-header")):
        yield "has a fixed address (not PIE)"
    if is_release and "__stack_chk_fail" not in readelf(path, "--dyn-syms"):
        yield "no stack protector"


def is_elf(path):
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def main():
    is_release = "--release" in sys.argv
    folders = [pathlib.Path(argument) for argument in sys.argv[1:] if argument != "--release"]
    files = [path for folder in folders for place in ("bin", "tests", "lib", "lib64", "lib/*-linux-gnu*")
             for path in folder.glob(f"{place}/*") if is_elf(path)]
    found = [f"{path}: {fault}" for path in files for fault in faults(path, is_release)]
    # Not every file has a call whose buffer the compiler knows.
    if is_release and not any("_chk@" in readelf(path, "--dyn-syms") for path in files if "reprise" in path.name):
        found.append("no call checks the size of its buffer (_FORTIFY_SOURCE)")
    print("\n".join([*found, f"{len(files)} files looked at"]))
    if found or not files:
        sys.exit(1)


if __name__ == "__main__":
    main()
