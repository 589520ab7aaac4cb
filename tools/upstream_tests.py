#!/usr/bin/env python3
"""Runs PyTorch's own tests of activation checkpointing with torch.utils.checkpoint replaced by reprise.

    tools/upstream_tests.py --tests <pytorch>/test

It fetches nothing: the folder is the test folder of a checkout of PyTorch. `reprise` must be importable, and pytest and
expecttest installed. Prints one line per test and fails where an outcome is not the one in
docs/upstream-python-tests.md. A test counts if it calls a name of torch.utils.checkpoint.
"""

import argparse
import fnmatch
import functools
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "upstream-python-tests.md"
FILES = [
    "test_utils.py",
    "test_autograd.py",
    "test_nestedtensor.py",
    "test_module_tracker.py",
    "functorch/test_vmap.py",
    "distributed/_tools/test_mod_tracker.py",
    "distributed/fsdp/test_checkpoint_wrapper.py",
]
ROW = re.compile(r"\| `([^`]+)` \| (passes|differs|skipped) \|")


class Replacement:
    """As a plugin of pytest: replaces the module's names, runs the tests that mention it, and writes what happened."""

    def __init__(self, results: str):
        self._results = pathlib.Path(results)
        self._calls = 0
        self._outcomes: dict[str, str] = {}

    def replace(self) -> None:
        import torch.utils.checkpoint as theirs

        import reprise

        for name in theirs.__all__:
            ours = getattr(reprise, name)
            setattr(theirs, name, self._counted(ours) if inspect.isroutine(ours) else ours)

    def _counted(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            self._calls += 1
            return function(*args, **kwargs)

        return call

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "checkpoint" in _source(item.function)]

    def pytest_runtest_setup(self, item):
        self._calls = 0

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::", 1)[1].replace("::", ".")
        if report.skipped:
            self._outcomes[name] = "skipped"
        elif self._calls > 0 and (report.failed or report.when == "call"):
            self._outcomes[name] = "differs" if report.failed else self._outcomes.get(name, "passes")

    def pytest_sessionfinish(self):
        self._results.write_text(json.dumps(self._outcomes))


def _source(function) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""


def run_file(folder: pathlib.Path, file: str, verbose: bool) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as scratch:
        results = pathlib.Path(scratch) / "results.json"
        environment = dict(os.environ, PYTORCH_TEST_WITH_SLOW="1", PYTORCH_PRINT_REPRO_ON_FAILURE="0")
        command = [sys.executable, __file__, "--in-pytest", str(results), "--tests", file]
        # Tests import their neighbours, as from their own folder.
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if verbose or not results.exists():
            print(done.stdout.decode(errors="replace"))
        if not results.exists():
            sys.exit(f"{file} did not run")
        return json.loads(results.read_text())


def run_in_pytest(file: str, results: str) -> None:
    import pytest

    replacement = Replacement(results)
    replacement.replace()
    sys.path[:0] = [os.getcwd(), os.path.dirname(os.path.abspath(file))]
    options = ["-q", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider", "--noconftest"]
    pytest.main([file, *options], plugins=[replacement])


def documented(text: str) -> dict[str, dict[str, str]]:
    """The outcomes by file and test. Each file has a section: `## test/<file>`."""
    outcomes: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0].strip()
        if heading.startswith("test/"):
            outcomes[heading.removeprefix("test/")] = dict(ROW.findall(section))
    return outcomes


def differences(file: str, actual: dict[str, str], expected: dict[str, str]) -> list[str]:
    found = []
    families = [name for name in expected if "*" in name]
    expected = expected | {
        test: expected[name] for name in families for test in actual if fnmatch.fnmatch(test, name)
    }
    for test in sorted((actual.keys() | expected.keys()) - set(families)):
        outcome, wanted = actual.get(test, "is missing"), expected.get(test, "not listed")
        # What is skipped without a GPU has to pass with one.
        if outcome != wanted and (wanted, outcome) != ("skipped", "passes"):
            found.append(f"{file} {test}: {outcome}, documented: {wanted}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", required=True, help="the test folder of a checkout of PyTorch")
    parser.add_argument("--verbose", action="store_true", help="print what pytest prints")
    parser.add_argument("--in-pytest", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_pytest:
        run_in_pytest(arguments.tests, arguments.in_pytest)
        return
    folder = pathlib.Path(arguments.tests)
    expected = documented(DOCUMENT.read_text())
    wrong, totals = [], {"passes": 0, "differs": 0, "skipped": 0}
    for file in FILES:
        actual = run_file(folder, file, arguments.verbose)
        for test, outcome in sorted(actual.items()):
            totals[outcome] += 1
            print(f"| `{test}` | {outcome} | {file}")
        wrong += differences(file, actual, expected.get(file, {}))
    print(f"\n{sum(totals.values())} tests: " + ", ".join(f"{count} {name}" for name, count in totals.items()))
    if wrong:
        sys.exit("\n".join(["Not as docs/upstream-python-tests.md says:", *wrong]))


if __name__ == "__main__":
    main()
