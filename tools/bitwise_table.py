#!/usr/bin/env python3
"""Prints the bitwise-equality table of a zoo_test run as Markdown.

usage: checkpoint_tests --file=zoo_test --gtest_output=json:out.json; bitwise_table.py out.json

A cell lists the dtypes for which loss, gradients, buffers and random state of two training steps were equal to plain
training to the last bit; "skip" where the test says why it does not apply.
"""
import collections
import json
import sys

SHORT = {"Float": "f32", "Double": "f64"}


def outcome(test):
    if test.get("failures"):
        return "FAIL"
    return "skip" if test["result"] == "SKIPPED" else "ok"


def main():
    tables = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(dict)))
    with open(sys.argv[1], encoding="utf-8") as file:
        suites = json.load(file)["testsuites"]
    modes = []
    for suite in suites:
        for test in suite["testsuite"]:
            if not test["name"].startswith("IsBitwiseEqualToPlain/"):
                continue
            model, mode, dtype, device = test["name"].split("/")[1].split("_")
            tables[device][model][mode][dtype] = outcome(test)
            if mode not in modes:
                modes.append(mode)
    passed = 0
    for device, models in tables.items():
        if all(r == "skip" for row in models.values() for cell in row.values() for r in cell.values()):
            continue
        print(f"### {device}\n")
        print("| | " + " | ".join(modes) + " |\n|" + "---|" * (len(modes) + 1))
        for model, row in models.items():
            cells = []
            for mode in modes:
                equal = [SHORT[d] for d, r in row[mode].items() if r == "ok"]
                wrong = [SHORT[d] + " DIFFERS" for d, r in row[mode].items() if r == "FAIL"]
                passed += len(equal) if mode != "None" else 0
                cells.append(" ".join(equal + wrong) or "skip")
            print(f"| {model} | " + " | ".join(cells) + " |")
        print()
    print(f"{passed} combinations equal to plain training to the last bit (None: plain training twice, not counted).")


if __name__ == "__main__":
    main()
