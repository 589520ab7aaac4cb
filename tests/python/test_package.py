"""The package: which PyTorch it takes, its version, and the program that it carries."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import reprise
from reprise import _C, _program
from reprise._installed import check_torch, torch_folder, torch_version

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(reprise.__file__).parent


def run(*command, **environment):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("installed", ["2.15.0", "2.15.1", "2.15.2+cu132", "2.15.0a0+git5c1"])
def test_other_patches_of_a_minor_version_will_do(installed):
    check_torch("2.15.0", installed)


@pytest.mark.parametrize("installed", ["2.14.1", "2.16.0", "2.1.5", "3.15.0"])
def test_another_minor_version_is_refused_by_name(installed):
    with pytest.raises(ImportError, match=rf"built with PyTorch 2\.15\.0, but PyTorch {re.escape(installed)} is"):
        check_torch("2.15.0", installed)


def test_import_refuses_another_minor_version():
    result = run(sys.executable, "-c", "import torch; torch.__version__ = '2.10.3'; import reprise")
    assert result.returncode == 1
    assert f"built with PyTorch {_C.torch_version}, but PyTorch 2.10.3 is installed" in result.stderr


def test_the_installed_version_is_found_without_import():
    assert torch_folder() == pathlib.Path(torch.__file__).parent
    assert torch_version(torch_folder()) == torch.__version__


def test_source_folder_says_that_nothing_is_built():
    result = run(sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import reprise", SOURCE / "python")
    assert result.returncode == 1
    assert "ImportError" in result.stderr and "pip install ." in result.stderr


def test_version_is_that_of_cmake():
    project = re.search(r"project\(Reprise VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())
    assert reprise.__version__ == project[1]


def test_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()


# The program.


@pytest.mark.skipif(not (PACKAGE / "bin" / "reprise").is_file(), reason="the program is not built")
def test_module_runs_the_program():
    result = run(sys.executable, "-m", "reprise", "--help")
    assert result.returncode == 0, result.stderr
    assert "reprise sft" in result.stdout
    assert reprise.__version__ in run(sys.executable, "-m", "reprise", "--version").stdout


def test_package_without_the_program_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(_program, "_PACKAGE", tmp_path)
    monkeypatch.setattr(_program, "WITHOUT_PROGRAM", "not found: sentencepiece")
    with pytest.raises(SystemExit, match=r"built without the program \(not found: sentencepiece\)"):
        _program.main()


@pytest.fixture
def carried(tmp_path):
    """A package whose program prints what it gets, and which cannot be imported."""
    package = tmp_path / "site" / "reprise"
    (package / "bin").mkdir(parents=True)
    for name in ("_program.py", "_installed.py"):
        (package / name).symlink_to(SOURCE / "python" / "reprise" / name)
    (package / "__init__.py").write_text("raise AssertionError('the package was executed')")
    (package / "_build.py").write_text("TORCH_VERSION = '2.13.0'\nWITHOUT_PROGRAM = ''")
    program = package / "bin" / "reprise"
    program.write_text('#!/bin/sh\necho "$@"\necho "$LD_LIBRARY_PATH"\nexit 7\n')
    program.chmod(0o755)
    return package


def fake_torch(folder, version):
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise AssertionError('torch was imported')")
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")


def console_script(*folders):
    path = os.pathsep.join(map(str, folders))
    script = SOURCE / "python" / "wheel" / "program.py"
    return run(sys.executable, script, "sft", "--model", "a b", PYTHONPATH=path, LD_LIBRARY_PATH="before")


def test_console_script_becomes_the_program_without_importing_torch(carried):
    fake_torch(carried.parent, "2.13.1+cpu")
    result = console_script(carried.parent)
    assert (result.returncode, result.stdout) == (7, "sft --model a b\nbefore\n"), result.stderr


def test_program_finds_a_torch_that_is_elsewhere(carried, tmp_path):
    fake_torch(tmp_path / "other", "2.13.0")
    result = console_script(carried.parent, tmp_path / "other")
    assert result.stdout.splitlines()[1] == f"{tmp_path}/other/torch/lib:before", result.stderr


def test_program_refuses_another_minor_version(carried):
    fake_torch(carried.parent, "2.14.0")
    result = console_script(carried.parent)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("reprise: this reprise was built with PyTorch 2.13.0, but PyTorch 2.14.0 is")


# What a build asks for.


@pytest.fixture
def installed_torch(monkeypatch):
    monkeypatch.syspath_prepend(str(SOURCE / "python" / "wheel"))
    import installed_torch

    yield installed_torch
    del sys.modules["installed_torch"]


def requirement(module, state):
    provider = module.Requirement()
    provider.build_state(state)
    return provider.dynamic_metadata({}, {})["dependencies"]


def test_wheel_requires_the_minor_version_that_it_was_built_for(installed_torch, monkeypatch, tmp_path):
    fake_torch(tmp_path, "2.12.7+cu130")
    (tmp_path / "torch" / "include" / "ATen").mkdir(parents=True)
    monkeypatch.setenv("REPRISE_TORCH", str(tmp_path / "torch"))
    assert requirement(installed_torch, "wheel") == ["torch==2.12.*"]
    assert requirement(installed_torch, "sdist") == ["torch"]


def test_build_without_torch_is_refused_with_what_to_do(installed_torch, monkeypatch, tmp_path):
    monkeypatch.setenv("REPRISE_TORCH", str(tmp_path))
    with pytest.raises(SystemExit, match="pip install torch"):
        requirement(installed_torch, "metadata_wheel")
