"""``gpuio crosscheck`` as it is typed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.fio import find_fio


def needs_fio():
    try:
        find_fio()
    except CapabilityMissing as error:
        pytest.skip(str(error))


def test_the_lines_of_the_suite_are_listed(capsys):
    assert main(["crosscheck", "--list"]) == 0
    out = capsys.readouterr().out
    assert "null-qd32" in out
    assert "open-spinning-lag" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fio", "/nowhere/fio"], "/nowhere/fio cannot be run"),
        (["--suite", "overhead", "--only", "nothing"], "names no line"),
        (["--pairs", "0"], "--pairs 0: at least 1"),
        (["--seconds", "0.1", "--datapath", "null"], "0.4 to 3600"),
        (["--datapath", "nonsense"], "unknown data path 'nonsense'"),
        (["--workload", "nonsense"], "workload 'nonsense' is unknown"),
        (["--batch", "4y4"], "is not a batch"),
        (["--bs", "4q"], "is not a size"),
        (["--datapath", "psync", "--qd", "8"], "one request in flight per job"),
        (["--workload", "micro/zipfread"], "zipf offsets cannot be compared"),
    ],
)
def test_refusals_are_one_line(capsys, tmp_path, arguments, words):
    if "--fio" not in arguments:
        needs_fio()
    assert main(["crosscheck", str(tmp_path / "t"), "--size", "4M", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err.splitlines()[-1]
    assert "Traceback" not in captured.err


def test_somebody_elses_file_is_not_replaced(capsys, tmp_path):
    needs_fio()
    file = tmp_path / "precious.json"
    file.write_text('{"mine": 1}')
    assert main(["crosscheck", "--datapath", "null", "--json", str(file)]) == 2
    assert "is not a gpuio crosscheck file" in capsys.readouterr().err
    assert file.read_text() == '{"mine": 1}'


def test_a_cell_is_printed_and_written(capsys, tmp_path):
    needs_fio()
    file = tmp_path / "x.json"
    arguments = ["crosscheck", str(tmp_path), "--datapath", "null", "--qd", "4", "--pairs", "1", "--seconds", "0.4"]
    assert main([*arguments, "--json", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("micro/randread null ")
    assert "pair 1/1: fio again" in captured.err
    found = json.loads(file.read_text())
    assert (found["schema"], found["kind"]) == (1, "gpuio-crosscheck")
    assert found["plan"]["qd"] == 4
    assert found["figures"]["iops"]["ours"]["median"] == found["pairs"][0]["ours"]["iops"]
    assert main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "gpuio-crosscheck"


def test_ctrl_c_prints_what_is_done(tmp_path):
    needs_fio()
    command = [sys.executable, "-P", "-m", "pytest_gpuio.cli", "crosscheck", str(tmp_path), "--datapath", "null"]
    process = subprocess.Popen(
        [*command, "--pairs", "50", "--seconds", "0.4"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    for line in process.stderr:
        if "pair 2/50" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "1 pairs of 0.4 s" in out
    assert "Interrupted" in out
    assert "Traceback" not in errors


def test_a_missed_line_is_status_1(capsys, tmp_path, monkeypatch):
    from pytest_gpuio.crosscheck import cost, suite
    from pytest_gpuio.crosscheck.claims import Claim
    from pytest_gpuio.crosscheck.verdict import Target

    # No cell takes less than no time: a line that must miss.
    claim = Claim("cell-start", "cell that starts its child", "ms", Target("<=", -1e9))
    monkeypatch.setattr(cost, "_START", claim)
    monkeypatch.setattr(cost, "_STARTS", 1)
    monkeypatch.setattr(suite, "disturbed", lambda _share: None)  # as on a quiet machine
    assert main(["crosscheck", "--suite", "overhead", "--only", "cell-start", str(tmp_path)]) == 1
    assert "missed" in capsys.readouterr().out
