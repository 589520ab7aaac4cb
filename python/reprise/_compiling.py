"""Functions that torch.compile compiles while a region runs: compiling is no part of the region.

A compiler runs a function on fake tensors and differentiates it. A region around the call would take that for the
function's own work.
"""

import contextlib
import functools

from reprise import _C


@functools.cache
def hide_compilations() -> None:
    """Takes effect for all compilations of this process. Loads the compiler, as torch.utils.checkpoint does when it is
    called first."""
    from torch._dynamo.callback import CompilationCallbackHandler

    install_callbacks = CompilationCallbackHandler.install_callbacks

    @contextlib.contextmanager
    def outside_of_regions(self, *args, **kwargs):
        with install_callbacks(self, *args, **kwargs), _C.OutsideScope():
            yield

    CompilationCallbackHandler.install_callbacks = outside_of_regions
