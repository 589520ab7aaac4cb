#!/usr/bin/env python3
"""Checks that the functions which installed headers declare are in the library of their component.

Usage: check_exports.py PREFIX checkpoint|train. A function that a header declares for users carries REPRISE_API.
"""
import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^(?:friend )?REPRISE_API [\w:<>,&* \[\]]*?\b(\w+)\(", re.MULTILINE)


def headers(include, component):
    if component == "checkpoint":
        return [*include.glob("*.h"), *include.glob("detail/*.h")]
    return [path for path in include.glob("*/*.h") if path.parent.name != "detail"]


def main():
    prefix, component = pathlib.Path(sys.argv[1]), sys.argv[2]
    library = next(prefix.glob(f"lib*/**/libreprise_{component}.so"))
    symbols = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, capture_output=True,
                             text=True).stdout
    exported = set(re.findall(r"reprise::(?:\w+::)*(\w+)(?:\[abi:\w+\])?\(", symbols))
    missing = checked = 0
    for header in headers(prefix / "include" / "reprise", component):
        for name in FUNCTION.findall(header.read_text(encoding="utf-8")):
            checked += 1
            if name not in exported:
                print(f"{header}: {name} is not in {library.name}")
                missing += 1
    print(f"{checked} functions looked for in {library.name}")
    if missing or not checked:
        sys.exit(1)


if __name__ == "__main__":
    main()
