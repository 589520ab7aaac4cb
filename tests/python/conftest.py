"""What every Python test starts with: one thread, deterministic kernels, the same seed, and nothing left behind."""

import gc
import os

# oneDNN announces AMX where a machine cannot use it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest  # noqa: E402
import torch  # noqa: E402

import reprise  # noqa: E402

torch.set_num_threads(1)


def pytest_collection_finish():
    """What was imported stays: without it, the collection after each test takes no time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_start():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    reprise.reset_stats()
    yield
    torch.use_deterministic_algorithms(False)
    assert not reprise.is_recomputing()
    gc.collect()
