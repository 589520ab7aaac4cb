"""The type stubs: _C.pyi has the names and parameters of the extension and of its classes."""

import ast
import inspect
import pathlib
import re

import reprise
from reprise import _C

PACKAGE = pathlib.Path(reprise.__file__).parent


def of_stubs():
    def parameters(function):
        given = function.args
        positional = ["_"] * len(given.posonlyargs) + ["_" if one.arg == "self" else one.arg for one in given.args]
        return [*positional, *(["*"] if given.vararg else []), *(one.arg for one in given.kwonlyargs)]

    found = {}

    def visit(nodes, prefix):
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = None
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                is_property = any(getattr(one, "id", "") == "property" for one in node.decorator_list)
                found[prefix + node.name] = None if is_property else parameters(node)
            elif isinstance(node, ast.AnnAssign):
                found[prefix + node.target.id] = None

    visit(ast.parse((PACKAGE / "_C.pyi").read_text()).body, "")
    return found


def signature(document):
    """The parameters in the first line of pybind11's documentation: `name(self: T, arg0: int, *, key: str = '') -> T`."""
    inside = re.match(r"\w+\((.*)\)(?: -> |$)", document.splitlines()[0])[1]
    while inside != (inside := re.sub(r"\[[^][]*\]|\([^()]*\)|<[^<>]*>", "", inside)):
        pass
    names = [re.split(r"[:=]", one)[0].strip() for one in inside.split(",") if one.strip()]
    return ["_" if re.fullmatch(r"self|arg\d", name) else "*" if name == "*args" else name for name in names if name != "*"]


def of_extension(owner=_C, prefix=""):
    kept = {"__init__", "__enter__", "__exit__"}
    found = {}
    for name, value in vars(owner).items():
        if name.startswith("_") and name not in kept:
            continue
        if inspect.isclass(value):
            found[prefix + name] = None
            found |= {} if issubclass(value, BaseException) else of_extension(value, f"{prefix}{name}.")
        elif isinstance(value, staticmethod):
            found[prefix + name] = signature(value.__func__.__doc__)
        elif callable(value) and not isinstance(value, owner if inspect.isclass(owner) else ()):
            if "See help(type(self))" not in value.__doc__:  # of a class that cannot be made
                found[prefix + name] = signature(value.__doc__)
        else:
            found[prefix + name] = None
    return found


def test_stubs_have_the_names_of_the_extension():
    stubs, extension = of_stubs().keys(), of_extension().keys()
    assert not extension - stubs, "names that python/reprise/_C.pyi lacks"
    assert not stubs - extension, "names of python/reprise/_C.pyi that the extension lacks"


def test_stubs_have_the_parameters_of_the_extension():
    stubs, extension = of_stubs(), of_extension()
    both = stubs.keys() & extension.keys()
    differing = {name: (stubs[name], extension[name]) for name in both if stubs[name] != extension[name]}
    assert not differing, "parameters in python/reprise/_C.pyi, and in the extension"
