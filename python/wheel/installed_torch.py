"""The PyTorch that a wheel is built for, found without importing it.

Run by CMake, it prints the folder. For scikit-build-core, it makes the wheel require PyTorch's minor version.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import site
import sys
import sysconfig

MISSING = f"""\
reprise is built for the PyTorch that is installed, and {sys.executable} finds none.
Install one (pip install torch) into the environment that reprise is for, and build again. Builders that make an environment
of their own (uv, build) hide it: pip install scikit-build-core, and build with --no-build-isolation (build: --no-isolation).
Or set REPRISE_TORCH to the folder of a torch package, the one with include/ and lib/."""


def _places() -> list[pathlib.Path]:
    """Where a torch package may be, first match wins."""
    if chosen := os.environ.get("REPRISE_TORCH"):
        return [pathlib.Path(chosen)]
    spec = importlib.util.find_spec("torch")
    found = list(spec.submodule_search_locations or ()) if spec else []
    # pip hides the environment that it installs into from a build, but not its paths.
    around = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE is not False:
        around.append(site.getusersitepackages())
    return [pathlib.Path(path) for path in [*found, *(f"{folder}/torch" for folder in around)]]


def folder() -> pathlib.Path | None:
    return next((place for place in _places() if (place / "include" / "ATen").is_dir()), None)


def minor(torch: pathlib.Path) -> str:
    """Of an installed package: 2.15."""
    return re.search(r"^__version__ = ['\"](\d+\.\d+)", (torch / "version.py").read_text(), re.MULTILINE)[1]


class Requirement:
    """A provider of metadata: dependencies = ["torch==2.15.*"] in a wheel, any PyTorch in the sdist."""

    def build_state(self, state: str) -> None:
        self._is_sdist = state == "sdist"

    def dynamic_metadata(self, settings, project) -> dict[str, list[str]]:
        if self._is_sdist:
            return {"dependencies": ["torch"]}
        torch = folder()
        if torch is None:
            raise SystemExit(MISSING)
        return {"dependencies": [f"torch=={minor(torch)}.*"]}

    def dynamic_wheel(self, settings) -> dict[str, bool]:
        return {"dependencies": True}


if __name__ == "__main__":
    found = folder()
    if found is None:
        sys.exit(MISSING)
    print(found)
