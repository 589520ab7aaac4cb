#!/usr/bin/env python3
"""A user's first minute with the package, from the wheel that PYTHONPATH has: a region, its gradients, the program."""
import pathlib
import subprocess
import sys

import torch

import reprise


def block(x, weight):
    return torch.nn.functional.dropout(torch.tanh(x @ weight), 0.5)


def gradients(call):
    torch.manual_seed(0)
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    return torch.autograd.grad(call(block, x, weight).sum(), [x, weight])


def main():
    plain = gradients(lambda function, *args: function(*args))
    checkpointed = gradients(reprise.checkpoint)
    if not all(map(torch.equal, plain, checkpointed)):
        sys.exit("a region's gradients differ from plain training's")
    package = pathlib.Path(reprise.__file__).parent
    if (package / "bin" / "reprise").is_file():
        subprocess.run([sys.executable, "-m", "reprise", "--version"], check=True)
    print(f"reprise {reprise.__version__} of {package} with PyTorch {torch.__version__}: a region's gradients are right")


if __name__ == "__main__":
    main()
