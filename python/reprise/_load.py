"""Loads the extension module, if it was built for the PyTorch that is installed."""

import torch

try:
    from reprise._build import TORCH_VERSION
except ModuleNotFoundError:
    raise ImportError(
        f"{__file__} is in reprise's source folder, where nothing is built: run `pip install .`, or put the folder "
        f"python/ of a build into PYTHONPATH."
    ) from None
from reprise._installed import check_torch

check_torch(TORCH_VERSION, torch.__version__)

from reprise import _C  # noqa: E402,F401
