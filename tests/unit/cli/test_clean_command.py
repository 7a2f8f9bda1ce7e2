"""``gpuio clean``: says and removes what runs left, and nothing else."""

import json
import subprocess
import sys

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.targets import lay_out, leftovers

pytest.importorskip("pytest_gpuio.engine")
MIB = 1 << 20


@pytest.fixture(autouse=True)
def free_lock(tmp_path_factory, monkeypatch):
    """A lock of its own: other tests measure meanwhile."""
    folder = tmp_path_factory.mktemp("lock")
    monkeypatch.setattr("pytest_gpuio.isolation.lock.lock_folders", lambda: (folder,))
    return folder


@pytest.fixture
def target(tmp_path):
    lay_out(tmp_path / "gpuio-read.dat", MIB)
    folder = tmp_path / "models" / "inference-cold_start"
    leftovers.make_model_folder(folder)
    lay_out(folder / "a.bin", MIB)
    return tmp_path


def test_a_dry_run_removes_nothing(target, capsys):
    assert main(["clean", str(target), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"{target}/gpuio-read.dat" in out
    assert "2 files" in out
    assert "would be removed" in out
    assert len(leftovers.find(target)) == 2


def test_files_are_removed_with_their_size_told(target, capsys):
    size = sum(one.bytes for one in leftovers.find(target))
    assert main(["clean", str(target)]) == 0
    assert f"{target}: 2 files, {size:,} bytes" in capsys.readouterr().out
    assert not list(target.iterdir())
    assert main(["clean", str(target)]) == 0
    assert "0 files" in capsys.readouterr().out


def test_models_only(target, capsys):
    assert main(["clean", str(target), "--models-only", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert [file["path"].rpartition("/")[2] for file in told["files"]] == ["a.bin"]
    assert told["removed"]
    assert [path.name for path in target.iterdir()] == ["gpuio-read.dat"]


def test_a_run_in_progress_is_not_disturbed(target, capsys, free_lock):
    code = (
        "import sys, pathlib; from pytest_gpuio.isolation import HostLock;"
        f"HostLock(0.0, folders=[pathlib.Path({str(free_lock)!r})]).acquire();"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        assert main(["clean", str(target)]) == 2
        other.stdin.close()
    assert "gpuio:" in capsys.readouterr().err
    assert len(leftovers.find(target)) == 2


def test_without_a_target_the_default_one_is_cleaned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "nothing is there\n"


def test_a_target_that_is_not_there_is_told(tmp_path, capsys):
    assert main(["clean", str(tmp_path / "nowhere")]) == 2
    assert "cannot be looked at" in capsys.readouterr().err
