"""Loads the extension module, if it was built for the PyTorch that is installed."""

import torch

from reprise._build import TORCH_VERSION


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def check_torch(built: str, installed: str) -> None:
    """Raises ImportError if an extension that was built with one PyTorch would meet another."""
    if _minor(built) != _minor(installed):
        raise ImportError(
            f"this reprise was built with PyTorch {built}, but PyTorch {installed} is installed. Its C++ interface "
            f"changes between minor versions: build reprise again (pip install --no-build-isolation "
            f"--force-reinstall --no-deps reprise), or install torch=={built}."
        )


check_torch(TORCH_VERSION, torch.__version__)

from reprise import _C  # noqa: E402,F401
