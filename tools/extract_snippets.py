#!/usr/bin/env python3
"""Extracts the C++ snippets of Markdown files, so that the build can compile them.

A ```cpp block whose first line is `// snippet: name` is a complete translation unit; one that
starts with `// snippet-body: name` is the body of a function (its #include lines are hoisted).
Other blocks are left alone. Prints the paths of the files written, one per line; files that did
not change are not touched, and files of snippets that are gone are removed.
"""
import argparse
import pathlib
import re
import sys

FENCE = re.compile(r"^( *)```cpp[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"\s*// snippet(-body)?: ([A-Za-z][A-Za-z0-9_-]*)\s*$")


def as_function(name, lines):
    """Wraps a body; #line keeps the compiler's messages pointing into the document."""
    includes = [line for line in lines if line.lstrip().startswith("#include")]
    body = ["" if line.lstrip().startswith("#include") else line for line in lines]
    function = re.sub(r"\W", "_", name)
    head = ["#include <reprise/reprise.h>", "#include <torch/torch.h>", *includes]
    return head, f"void snippet_{function}() {{", body, "}"


def translation_unit(document, line, is_body, name, lines):
    # A quoted path in #line must not have backslashes; ours have none.
    position = f'#line {line} "{document}"'
    if not is_body:
        return "\n".join([position, *lines, ""])
    head, opening, body, closing = as_function(name, lines)
    declaration = opening.replace(" {", ";")
    return "\n".join([*head, declaration, opening, position, *body, closing, ""])


def snippets(document):
    text = document.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        indent = len(match.group(1))
        lines = [line[indent:] for line in match.group(2).splitlines()]
        marker = MARKER.match(lines[0]) if lines else None
        if marker:
            line = text.count("\n", 0, match.start(2)) + 2  # the line after the marker
            yield line, bool(marker.group(1)), marker.group(2), lines[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the .cpp files")
    parser.add_argument("documents", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    written = {}
    for document in arguments.documents:
        for line, is_body, name, lines in snippets(document):
            path = arguments.out / f"{name}.cpp"
            if path in written:
                sys.exit(f"{document}:{line}: snippet '{name}' is already in {written[path]}")
            written[path] = document
            content = translation_unit(document, line, is_body, name, lines)
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                path.write_text(content, encoding="utf-8")
    for stale in set(arguments.out.glob("*.cpp")) - set(written):
        stale.unlink()
    for path in written:
        print(path)


if __name__ == "__main__":
    main()
