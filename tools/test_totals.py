#!/usr/bin/env python3
"""Prints one line of totals for a test run: ctest entries, gtest and pytest cases in them, wall time.

Usage: test_totals.py NAME BUILD_DIR SECONDS; reads ctest's log and the XML that each test wrote.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def gtest_cases(folder):
    """(cases run, failed, skipped); disabled cases are not run."""
    run = failed = skipped = 0
    for report in folder.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            if case.get("status") != "run":
                continue
            if case.get("result") == "skipped":
                skipped += 1
                continue
            run += 1
            failed += case.find("failure") is not None
    return run, failed, skipped


def pytest_cases(folder):
    """(cases run, failed, skipped): gtest's have a status, these have none."""
    run = failed = skipped = 0
    for report in folder.glob("python.*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            is_skipped = case.find("skipped") is not None
            skipped += is_skipped
            run += not is_skipped
            failed += case.find("failure") is not None or case.find("error") is not None
    return run, failed, skipped


def main():
    name, build, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    log = (build / "ctest.log").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"(\d+) tests? failed out of (\d+)", log)
    failed, entries = map(int, found.groups()) if found else (0, 0)
    cases, failed_cases, skipped = gtest_cases(build / "gtest")
    python, failed_python, skipped_python = pytest_cases(build / "gtest")
    print(f"{name}: {entries} ctest entries ({failed} failed), {cases} gtest cases "
          f"({failed_cases} failed, {skipped} skipped), {python} Python cases "
          f"({failed_python} failed, {skipped_python} skipped), {seconds} s")


if __name__ == "__main__":
    main()
