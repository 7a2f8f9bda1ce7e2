"""Machines side by side, without a machine: jobs are functions here."""

import threading
import time

import pytest
from vmlab import LabBroken, LabLate, Outcome, Pool, machines_at_once


def ended(tmp_path, **more):
    return Outcome(**{"status": 0, "share": tmp_path, "devices": {}, "missing": {}, "boots": 1, "seconds": 1.0} | more)


def test_jobs_run_side_by_side_and_each_line_is_told_by_its_name(tmp_path):
    said, meet = [], threading.Barrier(2, timeout=30)

    def job(say, stop):
        say("one\ntw")
        meet.wait()
        say("o\n")
        return ended(tmp_path, cpu_seconds=7.0)

    pool = Pool({"a": job, "b": job}, 2, said.append)
    try:
        assert [pool.outcome(name).status for name in ("b", "a")] == [0, 0]
    finally:
        pool.close()
    for name in ("a", "b"):
        lines = [line.removeprefix(f"lab {name}: ") for line in said if line.startswith(f"lab {name}: ")]
        assert lines[:3] == ["booting", "one", "two"]
        assert lines[3].startswith("done, 7 s of processor time, after ")


def test_a_broken_machine_is_told_to_whoever_waits_for_it_only(tmp_path):
    def breaks(say, stop):
        raise LabBroken("died")

    pool = Pool({"bad": breaks, "good": lambda _say, _stop: ended(tmp_path, cpu_seconds=0.0)}, 1, lambda _line: None)
    try:
        assert pool.outcome("good").status == 0
        with pytest.raises(LabBroken, match="died"):
            pool.outcome("bad")
    finally:
        pool.close()


def test_when_the_time_is_over_machines_are_switched_off_and_what_was_done_stands(tmp_path):
    def waits(say, stop):
        while not stop():
            time.sleep(0.01)
        return ended(tmp_path, status=None, cpu_seconds=0.0, stopped=True)

    jobs = {"quick": lambda _say, _stop: ended(tmp_path, cpu_seconds=0.0), "slow": waits, "never begun": waits}
    pool = Pool(jobs, 1, lambda _line: None, seconds=0.3)
    try:
        for name in ("slow", "never begun"):
            with pytest.raises(LabLate, match="not done within 0 s"):
                pool.outcome(name)
        assert pool.outcome("quick").status == 0
    finally:
        pool.close()


def test_closing_switches_machines_off(tmp_path):
    stopped = threading.Event()

    def waits(say, stop):
        while not stop():
            time.sleep(0.01)
        stopped.set()
        return ended(tmp_path, status=None, cpu_seconds=0.0, stopped=True)

    Pool({"one": waits}, 1, lambda _line: None).close()
    assert stopped.is_set() or not any(thread.name.startswith("lab") for thread in threading.enumerate())


@pytest.mark.parametrize(("kib", "expected"), [(64 << 20, 2), (5 << 20, 1), (1 << 20, 1)])
def test_as_many_machines_as_there_is_memory_for(tmp_path, monkeypatch, kib, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable: {kib} kB\nHugePages_Total: 0\n")
    assert machines_at_once(meminfo) == expected
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert machines_at_once(meminfo) == 1
