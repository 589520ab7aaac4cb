"""The program `reprise`, as the package carries it: the console script and ``python -m reprise`` end here."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

from reprise._build import TORCH_VERSION, WITHOUT_PROGRAM
from reprise._installed import check_torch, torch_folder, torch_version

_PACKAGE = pathlib.Path(__file__).parent


def main() -> NoReturn:
    """Becomes the program, with this process's arguments."""
    program = _PACKAGE / "bin" / "reprise"
    if not program.is_file():
        sys.exit(
            f"reprise: this package was built without the program ({WITHOUT_PROGRAM or 'script/build builds it'}). "
            f"CONTRIBUTING.md has the Debian packages that it needs; with them, build the package again."
        )
    try:
        torch = torch_folder()
        check_torch(TORCH_VERSION, torch_version(torch))
    except ImportError as error:
        sys.exit(f"reprise: {error}")
    environment = dict(os.environ)
    if torch.parent != _PACKAGE.parent:  # beside the package, it is found without help
        paths = [str(torch / "lib"), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    sys.stdout.flush()
    os.execve(program, ["reprise", *sys.argv[1:]], environment)
