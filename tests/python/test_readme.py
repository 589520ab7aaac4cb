"""The Python programs of README.md and docs/python.md run as they are written."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# snippet: (\w+)\n")


def blocks_of(document):
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def programs():
    found = []
    for document in ("README.md", "docs/python.md"):
        for block in blocks_of(document):
            named = NAME.match(block)
            assert named, f"a program in {document} starts with # snippet: its name:\n{block}"
            found.append(pytest.param(block, id=f"{document}-{named[1]}"))
    return found


@pytest.mark.parametrize("program", programs())
def test_program_runs(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("call", ["reprise.checkpoint(", "reprise.enable(", "reprise.TrainerCallback("])
def test_readme_shows(call):
    assert any(call in block for block in blocks_of("README.md"))
