#!/usr/bin/env python3
"""Checks what script/wheel built: the sdist is what a build needs and no more; the wheel is complete, leaves LibTorch to
PyTorch, and its files find each other.

Usage: check_wheel.py SDIST WHEEL
"""
import pathlib
import re
import sys
import tarfile
import tempfile
import zipfile

import check_elf

NEVER = re.compile(r"^(\.deps|\.git|build|dist|benchmarks|tests)(/|$)|__pycache__|\.so$")
ALWAYS = ["__init__.py", "_build.py", "_C.pyi", "_program.py", "py.typed", "lib/libreprise_checkpoint.so.0.1"]
OF_THE_PROGRAM = ["bin/reprise", "lib/libreprise_train.so.0.1"]


def faults_of_sdist(path):
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for name in filter(NEVER.search, names):
        yield f"{path.name}: has {name}"
    if path.stat().st_size > 5e6:
        yield f"{path.name}: has {path.stat().st_size / 1e6:.1f} MB"


def faults_of_names(wheel, names):
    present = {name.removeprefix("reprise/") for name in names}
    scripts = [name for name in names if re.fullmatch(r"reprise-[^/]+\.data/scripts/reprise", name)]
    has_program = "bin/reprise" in present
    for name in [*ALWAYS, *(OF_THE_PROGRAM if has_program else [])]:
        if name not in present:
            yield f"{wheel}: has no reprise/{name}"
    if not any(re.fullmatch(r"_C\.cpython-.*\.so", name) for name in present):
        yield f"{wheel}: has no extension module"
    if bool(scripts) != has_program:
        yield f"{wheel}: has the console script or the program, and not both"
    for name in names:
        if ".so" in name and not name.startswith(("reprise/lib/libreprise_", "reprise/_")):
            yield f"{wheel}: has {name}, which is not ours"
        if not name.startswith(("reprise/", "reprise-")):
            yield f"{wheel}: installs {name} beside the package"


def faults_of_files(folder):
    files = [path for path in (folder / "reprise").rglob("*") if check_elf.is_elf(path)]
    for path in files:
        for fault in check_elf.faults(path, is_release=True):
            yield f"{path.relative_to(folder)}: {fault}"
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", check_elf.readelf(path, "--dynamic"))
        names = {other.name for other in files}
        for name in needed:
            if name.startswith("libreprise") and name not in names:
                yield f"{path.relative_to(folder)}: needs {name}, which is not in the wheel"
    program = folder / "reprise/bin/reprise"
    if program.exists() and not program.stat().st_mode & 0o100:
        yield "reprise/bin/reprise: not executable"


def faults_of_metadata(folder):
    metadata = next(folder.glob("*.dist-info/METADATA")).read_text()
    built = re.search(r'TORCH_VERSION = "(\d+\.\d+)', (folder / "reprise/_build.py").read_text())[1]
    if f"Requires-Dist: torch=={built}.*" not in metadata:
        yield f"METADATA: does not require PyTorch {built}"


def main():
    sdist, wheel = map(pathlib.Path, sys.argv[1:])
    found = [*faults_of_sdist(sdist)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            for entry in archive.infolist():  # with permissions, as pip does
                pathlib.Path(archive.extract(entry, folder)).chmod(entry.external_attr >> 16 & 0o777 or 0o644)
        found += [*faults_of_names(wheel.name, names), *faults_of_files(folder), *faults_of_metadata(folder)]
    print("\n".join([*found, f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB; "
                     f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB"]))
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main()
