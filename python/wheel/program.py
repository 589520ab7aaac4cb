#!python
"""Starts reprise's program. The package is not executed for that: `import torch` would take a second."""

import importlib.util
import sys

sys.modules["reprise"] = importlib.util.module_from_spec(importlib.util.find_spec("reprise"))

from reprise._program import main  # noqa: E402

main()
