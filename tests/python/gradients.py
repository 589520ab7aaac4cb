"""Loss, gradients and buffers of a step, to be compared bit by bit."""

from __future__ import annotations

from typing import Any, Callable

import torch


def state_after(
    make_module: Callable[[], torch.nn.Module], step: Callable[[torch.nn.Module], torch.Tensor]
) -> dict[str, Any]:
    """Runs ``step(module)``, which returns a loss, and its backward, from the same seed each time."""
    torch.manual_seed(0)
    module = make_module()
    loss = step(module)
    loss.backward()
    state = {"loss": loss.detach(), "rng": torch.get_rng_state()}
    state |= {f"grad {name}": value.grad for name, value in module.named_parameters()}
    state |= {f"buffer {name}": value.clone() for name, value in module.named_buffers()}
    return state


def assert_same_bits(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        got = actual[name]
        if value is None or got is None:
            assert value is got, name
            continue
        assert got.dtype == value.dtype and got.shape == value.shape, name
        # NaN equals NaN here, and -0 differs from 0.
        assert torch.equal(_bytes_of(got), _bytes_of(value)), f"{name} differs"


def _bytes_of(value: torch.Tensor) -> torch.Tensor:
    return value.detach().reshape(-1).contiguous().view(torch.uint8)
