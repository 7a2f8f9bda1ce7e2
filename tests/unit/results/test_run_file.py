import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import pytest_gpuio
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results import run_file, validate

CELL = json.loads((Path(__file__).parents[2] / "golden" / "cell_record.json").read_text())


def content(cells=(), **changes):
    arguments = {"interrupted": False, "machine": {"kernel": "6.1"}, "settings": {"seed": 1}, **changes}
    return run_file.results(run_file.benchmark_block(**arguments), cells)


def test_a_run_without_any_cell_is_written_and_valid(tmp_path):
    path = tmp_path / "r.json"
    run_file.write_results(path, content(interrupted=True))
    assert validate.validate_file(path) == []
    assert json.loads(path.read_text())["interrupted"] is True


def test_everything_of_a_run_is_kept(tmp_path):
    path = tmp_path / "r.json"
    full = content(
        [CELL],
        voids=[{"case": "c", "axes": CELL["axes"], "gate": "littles_law", "reason": "why", "evidence": ["e"]}],
        skips=[{"nodeid": "t.py::t", "case": None, "reason": "needs io_uring"}],
        failures=[{"nodeid": "t.py::u", "case": "c", "reason": "died"}],
    )
    run_file.write_results(path, full)
    assert json.loads(path.read_text()) == full
    assert validate.validate_file(path) == []
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~current_umask())


def test_cells_may_come_as_text_one_at_a_time(tmp_path):
    path = tmp_path / "r.json"
    block = {name: value for name, value in content().items() if name != "cells"}
    text = json.dumps(CELL).encode()
    for count in (0, 1, 3):
        run_file.write_cells(path, block, iter([text] * count))
        assert json.loads(path.read_text()) == content([CELL] * count)
        assert validate.validate_file(path) == []

    def broken():
        yield text
        raise GpuioError("the journal is corrupt.")

    before = path.read_bytes()
    with pytest.raises(GpuioError, match="corrupt"):
        run_file.write_cells(path, block, broken())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_time_is_utc():
    created = datetime(2026, 11, 30, 2, 15, 1, tzinfo=timezone(timedelta(hours=2)))
    block = run_file.benchmark_block(interrupted=False, machine={}, settings={}, created=created)
    assert block["created"] == "2026-11-30T00:15:01Z"
    assert "cells" not in block
    assert block["gpuio_version"] == pytest_gpuio.__version__
    now = run_file.benchmark_block(interrupted=False, machine={}, settings={})["created"]
    assert abs(datetime.strptime(now, "%Y-%m-%dT%H:%M:%S%z") - datetime.now(UTC)) < timedelta(minutes=1)


def test_our_own_older_file_is_replaced(tmp_path):
    path = tmp_path / "r.json"
    run_file.write_results(path, content())
    before = path.stat().st_ino
    run_file.write_results(path, content([CELL]))
    assert len(json.loads(path.read_text())["cells"]) == 1
    assert path.stat().st_ino != before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_a_foreign_file_is_left_alone(tmp_path):
    path = tmp_path / "precious.json"
    path.write_text('{"schema": 1, "mine": true}')
    with pytest.raises(ConfigError, match="is not a gpuio results file"):
        run_file.write_results(path, content())
    assert path.read_text() == '{"schema": 1, "mine": true}'
    with pytest.raises(ConfigError, match="is not a gpuio results file"):
        run_file.write_results("/dev/null", content())
    with pytest.raises(ConfigError, match="is not a gpuio results file"):
        run_file.write_results(tmp_path, content())
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ConfigError, match="is not a gpuio results file"):
        run_file.write_results(link, content())


def test_a_nan_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.json"
    run_file.write_results(path, content())
    before = path.read_bytes()
    with pytest.raises(GpuioError, match=r"results\.machine\.x cannot be written"):
        run_file.write_results(path, content(machine={"x": float("nan")}))
    assert path.read_bytes() == before


def test_what_could_not_be_replaced_later_is_not_written(tmp_path):
    shuffled = dict(reversed(content().items()))
    with pytest.raises(ValueError, match="start with its schema"):
        run_file.write_results(tmp_path / "r.json", shuffled)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(GpuioError, match=r"nowhere/r\.json cannot be written: No such file"):
        run_file.write_results(tmp_path / "nowhere" / "r.json", content())


def test_a_full_file_system_leaves_the_old_file(tmp_path):
    code = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from pytest_gpuio.results import run_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = run_file.benchmark_block(interrupted=False, machine={}, settings={})
run_file.write_results(sys.argv[1], run_file.results(block, []))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    run_file.write_results(sys.argv[1], run_file.results({**block, "interrupted": True}, []))
except Exception as error:
    print(error)
"""
    path = tmp_path / "r.json"
    root = str(Path(pytest_gpuio.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, path, root], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"results file {path} cannot be written: File too large.\n"
    assert json.loads(path.read_text())["interrupted"] is False
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    code = """
import json, sys
from pytest_gpuio.results import run_file
cell = json.load(open(sys.argv[2]))
block = run_file.benchmark_block(interrupted=False, machine={}, settings={})
while True:
    run_file.write_results(sys.argv[1], run_file.results(block, [cell] * 200))
"""
    path = tmp_path / "r.json"
    golden = Path(__file__).parents[2] / "golden" / "cell_record.json"
    writer = subprocess.Popen([sys.executable, "-c", code, path, golden])
    try:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        for _ in range(20):
            assert len(json.loads(path.read_text())["cells"]) == 200
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=60)
    assert len(json.loads(path.read_text())["cells"]) == 200
