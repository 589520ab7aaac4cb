#!/usr/bin/env python3
"""Prints a table of what `script/test --torch` found: a row for each version of LibTorch.

Usage: torch_table.py PRESET VERSION…; reads build/PRESET-torchVERSION.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

import test_totals


def bitwise_cells(folder):
    """Models x memory modes x dtypes of zoo_test that are equal to plain training in every bit, and all that ran."""
    report = folder / "zoo_test.xml"
    if not report.exists():
        return "not run"
    cases = [case for case in ElementTree.parse(report).iter("testcase")
             if "ZooTest" in case.get("classname", "") and case.get("status") == "run"
             and case.get("result") != "skipped"]
    failed = sum(case.find("failure") is not None for case in cases)
    return f"{len(cases) - failed} of {len(cases)}"


def row(preset, version):
    build = pathlib.Path(f"build/{preset}-torch{version}")
    library = build / "lib" / "libreprise_checkpoint.so"
    if not library.exists():
        return f"| {version} | no | | | |"
    log = build / "ctest.log"
    if not log.exists():
        return f"| {version} | yes | not run | | |"
    found = re.search(r"(\d+) tests? failed out of (\d+)", log.read_text(encoding="utf-8", errors="replace"))
    failed, entries = map(int, found.groups()) if found else (0, 0)
    cases, failed_cases, skipped = test_totals.gtest_cases(build / "gtest")
    return (f"| {version} | yes | {entries - failed} of {entries} | {cases - failed_cases} of {cases}, {skipped} skipped | "
            f"{bitwise_cells(build / 'gtest')} |")


def main():
    preset, versions = sys.argv[1], sys.argv[2:]
    print("| LibTorch | builds | test entries passed | cases passed | cells of the bitwise table |")
    print("|---|---|---|---|---|")
    for version in versions:
        print(row(preset, version))


if __name__ == "__main__":
    main()
