#!/usr/bin/env python3
"""Checks the Markdown files: relative links lead somewhere, headings that are linked to exist, and
`paths/in/backticks` that look like ours are there. A document goes stale by its paths first.
"""
import pathlib
import re
import subprocess
import sys

TOP = r"(?:include|src|tests|apps|examples|docs|benchmarks|tools|script|cmake|\.ci)"
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
# `src/memory/`, `include/reprise/policy.h`, `tests/*_test.cpp`, `src/a.cpp:12`; no placeholders.
PATH = re.compile(rf"`({TOP}/[\w./*+-]*)(?::\d+)?`")
COMMAND = re.compile(rf"`(?:\./)?((?:script|\.ci)/\w+)[ `]")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def documents():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(path) for path in listing.splitlines() if pathlib.Path(path).is_file()]


def without_fences(text):
    """Blanks code blocks but keeps their line breaks, so that line numbers stay right."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


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


def main():
    problems = 0
    for document in documents():
        text = without_fences(document.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), start=1):
            found = [link_problem(document, a or b) for a, b in LINK.findall(line)]
            found += [path_problem(path) for path in {*PATH.findall(line), *COMMAND.findall(line)}]
            for problem in filter(None, found):
                print(f"{document}:{number}: {problem}")
                problems += 1
    if problems:
        sys.exit(f"check_links: {problems} problem(s)")


if __name__ == "__main__":
    main()
