"""Sweeps that are killed, stopped, run twice at once, and run out of disk: real processes, nothing simulated."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pytest_gpuio.results import journal
from pytest_gpuio.sweep.export import choose, read_series, write_benchmark_json
from pytest_gpuio.sweep.status import read_status

#: How often the sweep of the crash test is killed; the release is checked with 50.
KILLS = int(os.environ.get("GPUIO_TEST_KILLS", "8"))
CLI = (sys.executable, "-P", "-m", "pytest_gpuio.cli", "sweep")
PLAN = """
name = "cheap"
[options]
size = "64M"
[windows]
length = "{length}"
count = 1
warm_up = "1ms"
[axes]
datapath = "null"
workload = ["micro/randread", "micro/randwrite"]
bs = {bs}
qd = "1..{depths}+1"
jobs = 1
"""


@pytest.fixture
def plan(tmp_path):
    """Function: writes a plan of 2 x sizes x depths cells of the path that moves no data."""

    def write(length="1ms", bs='["4k", "8k"]', depths=10):
        file = tmp_path / "cheap.toml"
        file.write_text(PLAN.format(length=length, bs=bs, depths=depths))
        return file

    return write


def command(plan, path, *more):
    target = plan.parent / "target"
    return [
        *CLI, "run", plan, "--journal", path, "--gpuio-target", target, "--gpuio-lock-timeout=100s", *more
    ]  # fmt: skip


def run(plan, path, *more, check=True):
    done = subprocess.run(command(plan, path, *more), capture_output=True, text=True, timeout=200)
    assert not check or done.returncode == 0, done.stderr
    return done


def keys(path):
    return [line.key for line in journal.scan(path) if line.kind == "cell"]


def exported(path):
    out = path.with_suffix(".json")
    out.unlink(missing_ok=True)
    write_benchmark_json(path, out, choose(read_series(path), None))
    return sorted(row["fullname"] for row in json.loads(out.read_text())["benchmarks"])


def wait_for(condition, what):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen")


def cells_in(path):
    # While it is written.
    return path.read_bytes().count(b'"kind":"cell"') if path.exists() else 0


def test_killed_at_random_moments_and_resumed_nothing_is_lost_or_doubled(plan, tmp_path):
    cheap = plan(depths=3 * max(KILLS, 6))
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    run(cheap, whole)
    chance = random.Random(KILLS)
    kept = 0
    for kill in range(KILLS):
        with (tmp_path / "errors.txt").open("wb") as errors:
            process = subprocess.Popen(command(cheap, torn), stdout=subprocess.DEVNULL, stderr=errors)
        if kill % 4:
            # Most kills hit the measuring, some the start.
            wait_for(lambda: cells_in(torn) > kept or process.poll() is not None, "a cell")  # noqa: B023
        # A cell takes a few milliseconds: not all of them may be over before the last kill.
        time.sleep(chance.uniform(0.0, 0.06))
        process.kill()
        assert process.wait(60) == -signal.SIGKILL, (tmp_path / "errors.txt").read_text()
        if torn.exists():
            kept = cells_in(torn)
    assert 0 < len(keys(torn)) < len(keys(whole))
    run(cheap, torn)
    assert sorted(keys(torn)) == sorted(keys(whole))
    assert len(set(keys(torn))) == len(keys(torn)) == 4 * 3 * max(KILLS, 6)
    assert exported(torn) == exported(whole)
    assert read_status(torn).series[-1].runs > 1


def test_a_journal_on_a_full_disk_loses_the_running_cell_at_most(plan, tmp_path):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small file system needs root and unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    cheap = plan(depths=20)
    path = disk / "j.jsonl"
    line = " ".join(map(str, command(cheap, path)))
    script = f"""
mount --make-rprivate / && mount -t tmpfs -o size=200k none {disk} || exit 77
{line} 2> {tmp_path}/full.err; echo $? > {tmp_path}/full.rc
cp {path} {tmp_path}/full.jsonl
mount -o remount,size=50m {disk} && {line} 2> {tmp_path}/rest.err; echo $? > {tmp_path}/rest.rc
cp {path} {tmp_path}/rest.jsonl
"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], timeout=300, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr}")
    assert (tmp_path / "full.rc").read_text() == "2\n", (tmp_path / "full.err").read_text()
    assert "No space left on device. Make room and go on" in (tmp_path / "full.err").read_text()
    before = keys(tmp_path / "full.jsonl")
    assert 0 < len(before) < 80
    assert b'"cell"' in (tmp_path / "full.jsonl").read_bytes()
    assert (tmp_path / "full.jsonl").read_bytes().endswith(b"\n"), "what was written of the last line is taken back"
    assert (tmp_path / "rest.rc").read_text() == "0\n", (tmp_path / "rest.err").read_text()
    after = keys(tmp_path / "rest.jsonl")
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 80


def test_a_second_runner_is_refused_and_the_first_finishes_its_cell_when_told_to_stop(plan, tmp_path):
    slow, path = plan(length="50ms", depths=60), tmp_path / "j.jsonl"
    with subprocess.Popen(command(slow, path), stderr=subprocess.PIPE, text=True) as first:
        wait_for(lambda: cells_in(path) > 1, "a cell")
        second = run(slow, path, check=False)
        assert second.returncode == 2
        assert f"another process is writing journal {path}" in second.stderr
        status = read_status(path)
        assert status.running
        assert len(exported(path)) >= 2, "an export of what is finished, while it runs"
        assert status.series[-1].ended is None
        first.send_signal(signal.SIGUSR1)
        told = first.communicate(timeout=60)[1]
        assert first.returncode == 4, told
    assert "SIGUSR1: stopping when the running cell is done" in told
    status = read_status(path)
    assert (status.running, status.series[-1].ended) == (False, "stopped")
    assert 0 < status.series[-1].measured < 240
    assert status.series[-1].left == 240 - status.series[-1].measured


def test_a_measuring_child_that_is_killed_costs_one_try_of_one_cell(plan, tmp_path):
    slow, path = plan(length="100ms", depths=8), tmp_path / "j.jsonl"
    with subprocess.Popen(command(slow, path), stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: cells_in(path) > 1, "a cell")
        children = psutil.Process(process.pid).children()
        (measuring,) = [child for child in children if child.cmdline()[-2] == "posix"]
        measuring.kill()
        told = process.communicate(timeout=100)[1]
    assert process.returncode == 0, told
    assert "killed by SIGKILL" in told
    assert [line.kind for line in journal.scan(path)].count("failure") == 1
    assert len(set(keys(path))) == len(keys(path)) == 32


def test_a_second_signal_stops_at_once_and_leaves_a_sound_journal(plan, tmp_path):
    long, path = plan(length="20s", depths=2), tmp_path / "j.jsonl"
    with subprocess.Popen(command(long, path), stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: path.exists() and b'"start"' in path.read_bytes(), "the start")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - began < 15, "the window of 20 s was not waited for"
    assert [line.kind for line in journal.scan(path)] == ["start", "end"]
    assert read_status(path).series[-1].ended == "interrupted"


def test_an_edited_plan_keeps_what_it_still_asks_for_and_new_windows_begin_a_series(plan, tmp_path):
    path = tmp_path / "j.jsonl"
    run(plan(depths=3), path)
    first = keys(path)
    assert len(first) == 12
    done = run(plan(depths=4), path)
    assert "16 cells, 12 of them done before, 4 to go" in done.stderr
    assert keys(path)[:12] == first
    assert len(exported(path)) == 16
    done = run(plan(depths=2, length="2ms"), path)
    assert "new series, all cells are measured again: effort: window_s 0.001 -> 0.002" in done.stderr
    assert len(exported(path)) == 8
    done = run(plan(depths=4), path)
    assert "16 cells, 16 of them done before, 0 to go" in done.stderr
    assert len(exported(path)) == 16
    assert [one.measured for one in read_status(path).series] == [8, 16]
