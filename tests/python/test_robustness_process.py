"""What must be seen from outside a process: its end, forks, interrupts, another PyTorch."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

PRELUDE = """
import gc, os, signal, sys, threading, time
import torch
torch.set_num_threads(1)
import reprise
torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
def block(h):
    return layer(h).sin().exp()
def step():
    x = torch.ones(2, 4, requires_grad=True)
    reprise.checkpoint(block, x).sum().backward()
    return x.grad
x = torch.ones(2, 4, requires_grad=True)
(expected,) = torch.autograd.grad(block(x).sum(), x)
"""


def run(program, prelude=PRELUDE):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", prelude + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def assert_quiet(program):
    """Ends well, and has nothing to say but "done"."""
    ended = run(program)
    assert (ended.returncode, ended.stderr, ended.stdout.split()) == (0, "", ["done"])


def test_exit_with_graphs_alive():
    assert_quiet("""
        class Holder: pass
        holder = Holder()
        holder.self = holder
        holder.graph = reprise.checkpoint(block, x)
        retained = reprise.checkpoint(lambda h: reprise.checkpoint(block, h).sin(), x).sum()
        retained.backward(retain_graph=True)
        penalty = torch.autograd.grad(reprise.checkpoint(block, x).sum(), x, create_graph=True)
        reentrant = reprise.checkpoint(block, x, use_reentrant=True)
        kept = reprise.checkpoint(block, x, policy=reprise.policies.save_matmuls())
        sys.graph = reprise.checkpoint(block, x)  # dies late
        torch.graph = reprise.checkpoint(block, x, context_fn=lambda: (torch.no_grad(), torch.enable_grad()))
        plan = reprise.plan(step, budget="1GiB")
        print("done")
        """)


def test_backward_at_exit():
    assert_quiet("""
        import atexit
        y = reprise.checkpoint(block, x)
        def last():
            y.sum().backward()
            assert torch.equal(x.grad, expected)
            print("done")
        atexit.register(last)
        """)


def test_exit_while_a_thread_recomputes():
    ended = run("""
        def slow(h):
            if reprise.is_recomputing():
                print("done", flush=True)
                time.sleep(60)
            return block(h)
        y = reprise.checkpoint(slow, x)
        threading.Thread(target=lambda: y.sum().backward(), daemon=True).start()
        time.sleep(1)
        """)
    assert (ended.returncode, ended.stdout.split()) == (0, ["done"]), ended.stderr


def test_interrupt_from_outside():
    assert_quiet("""
        def slow(h):
            h = layer(h).sin()
            if reprise.is_recomputing():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(30)
            return h.exp()
        y = reprise.checkpoint(slow, x)
        try:
            y.sum().backward()
        except KeyboardInterrupt:
            assert torch.equal(step(), expected)
            print("done")
        """)


def test_uncaught_interrupt_ends_the_program_as_python_does():
    ended = run("""
        def slow(h):
            if reprise.is_recomputing():
                raise KeyboardInterrupt
            return block(h)
        reprise.checkpoint(slow, x).sum().backward()
        """)
    assert ended.returncode == -2 and "in slow" in ended.stderr and "KeyboardInterrupt" in ended.stderr


def test_fork_with_graphs_alive():
    assert_quiet("""
        step()
        y = reprise.checkpoint(block, x)
        pid = os.fork()
        if pid == 0:
            y.sum().backward()
            assert torch.equal(x.grad, expected) and torch.equal(step(), expected)
            plan = reprise.plan(step, budget="1GiB")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        y.sum().backward()
        assert torch.equal(x.grad, expected)
        print("done")
        """)


def test_fork_inside_a_region():
    assert_quiet("""
        def forks(h):
            h = layer(h).sin()
            pid = os.fork()
            if pid == 0:  # a region of its own would be different work than forward's
                with torch.no_grad():
                    assert torch.equal(reprise.checkpoint(block, x), block(x))
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            return h.exp()
        y = reprise.checkpoint(forks, x)
        y.sum().backward()
        assert torch.equal(x.grad, expected)
        print("done")
        """)


def test_workers_of_a_data_loader():
    assert_quiet("""
        class Gradients(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return step()
        alive = reprise.checkpoint(block, x)
        loader = torch.utils.data.DataLoader(Gradients(), num_workers=2, multiprocessing_context="fork")
        for _ in range(2):
            for gradient in loader:
                assert torch.equal(gradient[0], expected)
                assert torch.equal(step(), expected)
        alive.sum().backward()
        print("done")
        """)


@pytest.mark.parametrize("version", ["2.14.1", "2.16.0", "3.15.0+cu130"])
def test_another_pytorch_is_refused_by_name(version):
    ended = run(f"import torch; torch.__version__ = '{version}'; import reprise", prelude="")
    assert ended.returncode == 1
    assert f"but PyTorch {version} is installed" in ended.stderr and "ImportError" in ended.stderr


def test_another_build_of_the_same_minor_is_accepted():
    major, minor = torch.__version__.split(".")[:2]
    ended = run(f"import torch; torch.__version__ = '{major}.{minor}.9+cpu'; import reprise; print('done')", prelude="")
    assert (ended.returncode, ended.stdout.split()) == (0, ["done"]), ended.stderr
