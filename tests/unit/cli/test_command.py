import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pytest_gpuio
from pytest_gpuio.cli import command, init, main, validate
from pytest_gpuio.core.errors import ConfigError


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_gpuio.cli", *map(str, arguments)], stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_help_teaches(capsys, argv):
    assert main(argv) == 0
    out = capsys.readouterr().out
    for words in ("pytest --pyargs pytest_gpuio.bench_suites", "gpuio init", "gpuio compare", "gpuio validate"):
        assert words in out


@pytest.mark.parametrize("name", ["init", "compare", "validate"])
def test_each_command_has_help_with_an_example(capsys, name):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: gpuio {name}")
    assert f"    gpuio {name} " in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpuio {pytest_gpuio.__version__}\n"


@pytest.mark.parametrize("argv", [["nonsense"], ["--nonsense"], ["--", "init"], ["init"], ["validate", "--x", "y"]])
def test_wrong_usage_is_2_and_says_so(capsys, argv):
    assert main(argv) == 2
    assert "usage: gpuio" in capsys.readouterr().err


def test_a_refusal_is_one_line(capsys, monkeypatch):
    def refuse(_):
        raise ConfigError("this cannot be done: do that.")

    monkeypatch.setattr(init, "run", refuse)
    assert main(["init", "x"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "gpuio: this cannot be done: do that.\n")


def test_ctrl_c_is_130(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(init, "run", interrupted)
    assert main(["init", "x"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr(validate, "run", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["validate", "x"])


def test_the_arguments_of_the_process_are_the_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpuio", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("gpuio ")


def test_a_closed_pipe_is_quiet(tmp_path):
    """`gpuio validate ... | head -1`: the reader is gone before the first line is written."""
    reader, writer = os.pipe()
    os.close(reader)
    (tmp_path / "x.json").write_text("{}")
    process = start("validate", tmp_path / "x.json", stdout=writer)
    os.close(writer)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, "")


def asleep_with(pid, path):
    """Whether a process sleeps and has a file open."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S" and any(fd.readlink() == path for fd in Path(f"/proc/{pid}/fd").iterdir())


def test_a_real_sigint_is_130_without_a_traceback(tmp_path):
    fifo = tmp_path / "never.json"
    os.mkfifo(fifo)  # opening it blocks until somebody writes
    process = start("validate", fifo, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    writer = None
    while writer is None and time.monotonic() < deadline:
        try:
            writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)  # works once it waits in open()
        except OSError:
            time.sleep(0.01)
    assert writer is not None
    # A signal between open() and read() would be noticed after the read, which never ends.
    while not asleep_with(process.pid, fifo) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, errors) == (130, "")


def test_commands_are_modules():
    for name in command._COMMANDS:
        module = __import__(f"pytest_gpuio.cli.{command._MODULES.get(name, name)}", fromlist=["run"])
        assert callable(module.run)
        assert callable(module.parser)
