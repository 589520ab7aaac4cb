#!/usr/bin/env python3
"""Checks for what must not be written in which files. Each rule says why, and what to do instead.

A line that has a reason to break a rule says so at its end: `// allow: <rule name>`.
"""
import pathlib
import re
import subprocess
import sys

# (name, files, pattern, why)
RULES = [
    ("heavy-header", r"^(include|src)/.*\.(h|cuh)$", r"#\s*include\s*<torch/(torch|all|nn|data)\.h>",
     "torch/torch.h takes 20 s to parse; headers include ATen or single torch/csrc headers"),
    ("private-header", r"^include/.*\.h$", r'#\s*include\s*"(?!reprise/)',
     "public headers are installed without src/; include <reprise/...> or move the part out"),
    ("pragma-once", r"^(include|src|apps|tests|examples|benchmarks)/.*\.h$", None,
     "headers start with #pragma once"),
    ("prints", r"^(include|src)/.*\.(h|cpp|cu|cuh)$",
     r"std::(cout|cerr|clog)\b|(?<![\w])(std::)?(printf|puts|fprintf)\s*\(",
     "the library never prints: return it, throw it (TORCH_CHECK), or print it in apps/"),
    ("exits", r"^(include|src)/.*\.(h|cpp|cu|cuh)$",
     r"(?<![\w.>:])(std::)?(exit|_Exit|quick_exit|abort|terminate)\s*\(",
     "the library never ends the process: throw, the program decides"),
    ("owning-new", r"^(include|src|apps)/.*\.(h|cpp)$", r"(?<![\w])(new\s+[A-Za-z_:]|delete\s+[A-Za-z_])",
     "values, std::unique_ptr or c10::make_intrusive own memory"),
    ("using-namespace", r"\.h$", r"^\s*using\s+namespace\b",
     "a header must not decide names for those who include it"),
]


def repository_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [path for path in listing.splitlines() if pathlib.Path(path).is_file()]


def code_of(line):
    """The line without the content of strings and without a comment."""
    return re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]


def violations(path, text):
    for name, files, pattern, why in RULES:
        if not re.search(files, path):
            continue
        if pattern is None:
            if "#pragma once" not in text:
                yield 1, name, why
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if f"allow: {name}" not in line and re.search(pattern, code_of(line)):
                yield number, name, why


def main():
    problems = 0
    for path in repository_files():
        if path == "tools/check_words.py" or not re.search(r"\.(h|cpp|cu|cuh|py|cmake)$", path):
            continue
        for number, name, why in violations(path, pathlib.Path(path).read_text(encoding="utf-8")):
            print(f"{path}:{number}: [{name}] {why}")
            problems += 1
    if problems:
        sys.exit(f"check_words: {problems} problem(s)")


if __name__ == "__main__":
    main()
