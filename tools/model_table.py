#!/usr/bin/env python3
"""Writes docs/model-table.md from tests/fixtures/model_table.json, which a test compares with what config.json gives.

    python3 tools/model_table.py
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).parents[1]
HEAD = """# The models that are used most

What `reprise` makes of their `config.json`, which [a test](../tests/model/model_table_test.cpp) reads. Facts are from public pages and from
the classes of transformers; `tools/model_table.py` writes this page from `tests/fixtures/model_table.json`.
A model of the same `model_type` in another size is opened alike.

| model | `model_type` | |
|---|---|---|
"""
REFUSED = {"experts": "refused: a mixture of experts"}


def result(row):
    if "refused" in row:
        return REFUSED.get(row["refused"], "refused: " + row["refused"])
    return "its text part, with `--text_only`" if row.get("text_only") else "opened"


def line(row):
    return f"| {row['model']} | `{row['config']['model_type']}` | {result(row)} |"


if __name__ == "__main__":
    rows = json.loads((ROOT / "tests/fixtures/model_table.json").read_text())
    (ROOT / "docs/model-table.md").write_text(HEAD + "\n".join(map(line, rows)) + "\n")
