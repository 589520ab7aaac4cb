"""Which PyTorch is installed, and whether reprise was built for it. Does not import it."""

from __future__ import annotations

import importlib.util
import pathlib
import re


def torch_folder() -> pathlib.Path:
    """Of the package that ``import torch`` would take."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("reprise needs PyTorch, which is not installed: pip install torch")
    return pathlib.Path(spec.submodule_search_locations[0])


def torch_version(folder: pathlib.Path) -> str:
    return re.search(r"^__version__ = ['\"](.+)['\"]", (folder / "version.py").read_text(), re.MULTILINE)[1]


def check_torch(built: str, installed: str) -> None:
    """Raises ImportError if what was built with one PyTorch would meet another."""
    if _minor(built) != _minor(installed):
        raise ImportError(
            f"this reprise was built with PyTorch {built}, but PyTorch {installed} is installed. Its C++ interface "
            f"changes between minor versions: install torch=={built}, or build reprise again in its source folder "
            f"(pip install --force-reinstall --no-deps .)."
        )


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])
