#!/usr/bin/env python3
"""Checks the Markdown files against the tree, since a document goes stale by its names first:
relative links and headings exist, files of ours that are named (`src/memory/`, `frame.h`,
`reprise/plan.h`, `grid_test`) exist, so do Note [Titles], and every `--flag` is one that a program of ours takes.
"""
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys

from flag_names import is_flag

TOP = r"(?:include|src|tests|apps|examples|docs|benchmarks|tools|script|cmake|\.ci)"
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
# `src/memory/`, `tests/*_test.cpp`, `src/a.cpp:12`; no placeholders.
PATH = re.compile(rf"`({TOP}/[\w./*+-]*)(?::\d+)?`")
COMMAND = re.compile(r"(?<![\w./])((?:script|\.ci)/\w+)(?![\w./])")
# frame.h, reprise/plan.h, src/io/safetensors_*.cpp: the end of a path of ours. Also in code blocks.
SOURCE = re.compile(r"(?<![\w./*+<>-])((?:[\w*+-]+/)*[\w*+-]+\.(?:h|cuh|cpp|cu))(?![\w>])")
INCLUDED = re.compile(r"<(reprise/[\w./]+\.h)>")
NOTE = re.compile(r"Note \[([^\]]+)\]")
TEST = re.compile(r"`(\w+_test)`")
PROGRAM = re.compile(r"build/\w+/tests/(\w+)")
FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w.*-]*)")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)

FOREIGN_SOURCES = {"torch/torch.h"}
# Its tables have other programs' flags in the first column.
FOREIGN_FIRST_COLUMN = "docs/migrating.md"


@functools.cache
def repository_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [path for path in listing.splitlines() if pathlib.Path(path).is_file()]


def documents():
    return [pathlib.Path(path) for path in repository_files() if path.endswith(".md")]


def without_fences(text):
    """Blanks code blocks but keeps their line breaks, so that line numbers stay right."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


@functools.cache
def anchors(document):
    """The heading anchors that GitHub makes."""
    found = set()
    for line in without_fences(document.read_text(encoding="utf-8")).splitlines():
        if line.startswith("#"):
            title = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            number = 0
            while (slug if not number else f"{slug}-{number}") in found:
                number += 1
            found.add(slug if not number else f"{slug}-{number}")
    return found


def link_problem(document, link):
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return None  # the web is not ours to check
    path, _, anchor = link.partition("#")
    target = (document.parent / path) if path else document
    if not target.exists():
        return f"link to {link}: no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"link to {link}: no such heading"
    return None


def path_problem(path):
    if "*" in path:
        exists = any(pathlib.Path(".").glob(path))
    else:
        exists = pathlib.Path(path).exists()
    return None if exists else f"`{path}`: no such path in the repository"


@functools.cache
def source_problem(name):
    """`name` may leave out folders in front: plan/step_planner.h, step_planner.h."""
    if name in FOREIGN_SOURCES:
        return None
    if any(fnmatch.fnmatch("/" + path, "*/" + name) for path in repository_files()):
        return None
    return f"{name}: no file of ours is called so"


def program_problem(name):
    is_program = name.endswith("_tests") and pathlib.Path("tests", name.removesuffix("_tests")).is_dir()
    return None if is_program else f"tests/{name}: no such test program (one per folder: <folder>_tests)"


@functools.cache
def note_titles():
    sources = [path for path in repository_files() if re.search(r"\.(h|cuh|cpp|cu)$", path)]
    texts = (pathlib.Path(path).read_text(encoding="utf-8") for path in sources)
    return {title for text in texts for title in NOTE.findall(text)} | {"Title"}


def note_problem(title):
    return None if title in note_titles() else f"Note [{title}]: no source has it"


def flag_problem(name):
    return None if is_flag(name) else f"--{name}: no program of ours takes this flag (tools/flag_names.py)"


def problems_of_prose(document, line):
    for link in LINK.findall(line):
        yield link_problem(document, link[0] or link[1])
    for path in PATH.findall(line):
        if not SOURCE.fullmatch(path):  # those are checked below
            yield path_problem(path)
    for title in NOTE.findall(line):
        yield note_problem(title)
    for name in TEST.findall(line):
        yield source_problem(name + ".cpp")


def problems_of_line(document, line):
    line = re.sub(r"\]\([^)]*\)", "]", line)  # links are checked as links
    for path in COMMAND.findall(line):  # script/demo
        yield path_problem(path)
    for name in (*SOURCE.findall(line), *INCLUDED.findall(line)):
        yield source_problem(name)
    for name in PROGRAM.findall(line):
        yield program_problem(name)
    if document.as_posix() == FOREIGN_FIRST_COLUMN and line.startswith("|"):
        line = re.sub(r"^\|(\\\||[^|])*\|", "|", line)
    for name in FLAG.findall(line):
        yield flag_problem(name.rstrip(".-"))


def main():
    problems = 0
    for document in documents():
        text = document.read_text(encoding="utf-8")
        lines = zip(without_fences(text).splitlines(), text.splitlines())
        for number, (prose, line) in enumerate(lines, start=1):
            found = dict.fromkeys((*problems_of_prose(document, prose), *problems_of_line(document, line)))
            for problem in filter(None, found):
                print(f"{document}:{number}: {problem}")
                problems += 1
    if problems:
        sys.exit(f"check_docs: {problems} problem(s)")


if __name__ == "__main__":
    main()
