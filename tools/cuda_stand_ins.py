#!/usr/bin/env python3
"""Makes stand-ins for the CUDA libraries that PyTorch's wheel links, so that `import torch` works on a machine without.

usage: cuda_stand_ins.py TORCH_FOLDER OUT_FOLDER

PyPI's wheel needs cuBLAS, cuDNN, NCCL and others to load, about 3 GB, also where there is no GPU. A stand-in has their
names and symbols, and no content: a process on a GPU must not use them. Put OUT_FOLDER into LD_LIBRARY_PATH. Libraries
that OUT_FOLDER's neighbours in site-packages have (the CUDA runtime, CUPTI) are left to them.
"""

from __future__ import annotations

import collections
import pathlib
import re
import shutil
import subprocess
import sys

# What the loader finds on every Linux with glibc and GCC's runtime.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|gomp|gfortran|quadmath|z)\.so|ld-linux")
BYTES_OF_A_SYMBOL = 4096  # some are copied as data


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_by(library: pathlib.Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", str(library)))


def versions_needed_by(library: pathlib.Path) -> dict[str, str]:
    """Which library each symbol version comes from."""
    versions, file = {}, ""
    for line in output_of("readelf", "--version-info", "--wide", str(library)).splitlines():
        if match := re.search(r"File: (\S+)", line):
            file = match[1]
        elif match := re.search(r"Name: (\S+)", line):
            versions[match[1]] = file
    return versions


def undefined_in(library: pathlib.Path) -> list[tuple[str, str]]:
    """Symbols and their versions, empty where they have none."""
    names = re.findall(r"^\s+[Uu] (\S+)$", output_of("nm", "--dynamic", "--undefined-only", str(library)), re.M)
    return [(name, version) for name, _, version in (entry.partition("@") for entry in names)]


def defined_in(library: pathlib.Path) -> set[str]:
    listed = output_of("nm", "--dynamic", "--defined-only", "--format=posix", str(library))
    return {line.split("@")[0].split(" ")[0] for line in listed.splitlines()}


def needed_to_import(folder: pathlib.Path) -> list[pathlib.Path]:
    """Libraries of `folder` that are loaded with torch. Others are loaded when a GPU is used."""
    found, queue = {}, ["libtorch_python.so", "libtorch_global_deps.so"]
    while queue:
        library = folder / queue.pop()
        if library.name not in found and library.is_file():
            found[library.name] = library
            queue += needed_by(library)
    return list(found.values())


def write_stand_in(path: pathlib.Path, symbols: dict[str, set[str]]) -> None:
    """`symbols`: by version."""
    source, script = [".bss", "stand_in:", f".skip {BYTES_OF_A_SYMBOL}"], []
    for version, names in sorted(symbols.items()):
        for name in sorted(names):
            source += [f".globl {name}", f".set {name}, stand_in", f".type {name}, @object",
                       f".size {name}, {BYTES_OF_A_SYMBOL}"]
        if version:
            script.append(f"{version} {{ global: {' '.join(name + ';' for name in sorted(names))} }};")
    source.append('.section .note.GNU-stack,"",@progbits')
    assembly, versions = path.with_suffix(".s"), path.with_suffix(".map")
    assembly.write_text("\n".join(source) + "\n")
    versions.write_text("\n".join(script) + "\n")
    flags = [f"-Wl,--version-script={versions}"] if script else []
    compiler = shutil.which("cc") or shutil.which("clang") or "cc"
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", *flags, "-o", str(path),
                    str(assembly)], check=True)
    assembly.unlink()
    versions.unlink()


def main() -> None:
    torch, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    own = needed_to_import(torch / "lib")
    present = {path.name for path in own} | {path.name for path in torch.parent.glob("nvidia/**/lib/*.so*")}
    missing = {name for library in own for name in needed_by(library)
               if name not in present and not SYSTEM.match(name)}
    defined = set().union(*(defined_in(library) for library in own))
    symbols = {name: collections.defaultdict(set) for name in missing}
    for library in own:
        versions = versions_needed_by(library)
        for name, version in undefined_in(library):
            if version in versions and versions[version] in missing:
                symbols[versions[version]][version].add(name)
            elif not version and name not in defined and missing:
                # Whose it is cannot be told: any library of the process will do.
                symbols[min(missing)][""].add(name)
    for name, by_version in symbols.items():
        write_stand_in(out / name, by_version)
    print(f"{len(missing)} stand-ins in {out}")


if __name__ == "__main__":
    main()
