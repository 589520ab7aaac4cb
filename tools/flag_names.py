"""Names of the flags that our programs take, read from the sources: lint runs without a build.

`is_flag(name)` is for a name without its dashes. `--adam_*` stands for any flag that it matches.
"""
import fnmatch
import functools
import pathlib
import re

# How flags are declared, by kind of file. Group 1 holds one name, or several strings or words.
DECLARATIONS = [
    # CLI11: add_option("--nproc,--nproc_per_node", …)
    ("apps/**/*.cpp benchmarks/*.cpp", r'add_(?:option|flag)\w*\(\s*"(-[^"]+)"', r"--([\w.-]+)"),
    # The table of the training commands: list.add("max_length", &Flags::max_length, …).aliases({"max_len"})
    ("apps/**/*.cpp", r'("[\w.]+"),\s*&Flags::', r'"([\w.]+)"'),
    ("apps/**/*.cpp", r"\.aliases\((?!named)((?s:.*?))\)(?:;|\s*\.)", r'"([\w.]+\w)"'),
    ("apps/**/*.cpp", r'\.shorthand\(("\w+")\)', r'"(\w+)"'),
    ("apps/**/*.cpp", r"\.shorthand\((\"\w+\")\)", r'"(\w+)"'),
    # Python's argparse.
    ("benchmarks/*.py benchmarks/python/*.py tools/*.py tests/fixtures/*.py", r"add_argument\(([^)]*)", r'"--([\w-]+)"'),
    # The scripts' own: `--all) …`, `== --help`.
    ("script/* .ci/*", r"((?:--[\w-]+(?:\)| \]\]| \|\||;)))", r"--([\w-]+)"),
    # The tests' main().
    ("tests/support/main.cpp", r'"(--\w+=)"', r"--(\w+)"),
    ("benchmarks/dist_compare.py", r"SIZES = \{([^}]*)\}", r'"(\w+)"'),
]
# Names that are put together: (file, declaration, where the name goes).
COMPOSED = [
    # Columns of the data, which `--<column>_key` renames.
    ("apps/**/*.cpp", r"case Objective::\w+:\s+return \{([^}]*)\};", ("{}_key", "data.{}_key")),
    ("apps/**/*.cpp", r"add_key_flags\(list, \{([^}]*)\}\)", ("{}_key", "data.{}_key")),
    ("apps/**/*.cpp", r"kNames = \{([^}]*)\}", ("actor.{}", "critic.{}")),
    ("apps/**/*.cpp", r"named\((\"\w+\")\)", ("actor.{}",)),
]

# Flags of other programs that the documents name.
FOREIGN = {
    "cmake": "build install prefix preset target",
    "ctest": "output-on-failure test-dir",
    "pip": "force-reinstall no-build-isolation no-deps",
    "googletest": "gtest_brief gtest_filter gtest_output",
    "compute-sanitizer": "error-exitcode kernel-name tool",
    "tensorboard": "logdir",
    "ColossalChat": "auto_weight",
}


def declared(globs, declaration, name):
    for pattern in globs.split():
        for path in sorted(pathlib.Path(".").glob(pattern)):
            if path.is_file():
                for found in re.findall(declaration, path.read_text(encoding="utf-8")):
                    yield from re.findall(name, found)


@functools.cache
def known():
    names = {"help"}
    for declaration in DECLARATIONS:
        names.update(declared(*declaration))
    for path, declaration, templates in COMPOSED:
        for part in declared(path, declaration, r'"(\w+)"'):
            names.update(template.format(part) for template in templates)
    for flags in FOREIGN.values():
        names.update(flags.split())
    return names


def is_flag(name):
    if name in known() or name.removeprefix("no_") in known():
        return True
    return "*" in name and bool(fnmatch.filter(known(), name))
