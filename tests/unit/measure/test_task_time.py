"""The kernel's own sums of its tasks' time."""

import time

import pytest

from pytest_gpuio.measure import control, host
from pytest_gpuio.measure.task_time import TaskTime, read_task_time

# As printed by Linux 6.1 (Documentation/scheduler/sched-stats.rst: the seventh number is "sum of all time spent running
# by tasks on this processor (in nanoseconds)").
SCHEDSTAT = """version 15
timestamp 4295072456
cpu0 0 0 0 0 0 0 7211000001 93000000 11043
domain0 3 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 500000002 95000000 12000
"""


def tree(tmp_path, **files):
    places = {
        "cpuacct": "sys/fs/cgroup/cpuacct/cpuacct.usage",
        "both": "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage",
        "schedstat": "proc/schedstat",
    }
    for name, content in files.items():
        path = tmp_path / places[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(tmp_path)


def test_groups_are_exact_and_come_first(tmp_path):
    assert read_task_time(tree(tmp_path, both="77\n", schedstat=SCHEDSTAT)) == TaskTime(77, stolen_too=False)
    assert read_task_time(tree(tmp_path, cpuacct="63520734667244\n")) == TaskTime(63520734667244, stolen_too=False)


def test_scheduler_statistics_are_summed_over_cpus(tmp_path):
    assert read_task_time(tree(tmp_path, schedstat=SCHEDSTAT)) == TaskTime(7_711_000_003, stolen_too=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version 14\ncpu0 0 0 0 0 0 0 1 2 3\n",
        "version 15\n",
        "version 15\ncpu0 1 2\n",
        "version x\ncpu0 1\n",
        "cpu0 a",
    ],
)
def test_what_cannot_be_understood_is_not_known(tmp_path, text):
    assert read_task_time(tree(tmp_path, schedstat=text)) is None
    assert read_task_time(str(tmp_path / "nowhere")) is None


def test_waking_up_belongs_to_no_task():
    """The real thing, where the kernel has an exact sum: what a CPU spends on being woken is not that of its tasks."""
    counter = read_task_time()
    if counter is None or counter.stolen_too or not host.every_task_is_visible():
        pytest.skip("this kernel has no exact sum of its tasks' time")

    before = control.look(first=True, ended=True)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        time.sleep(50e-6)
    after = control.look(first=False, ended=True)
    woken = control.weigh(before, after, outside_s=0.0, daemons=(), idle_cores=None)
    assert woken.no_task_s is not None
    # Where the hypervisor lets a CPU wait that is being woken, its time is both stolen and idle.
    assert abs(woken.unattributed_s) <= woken.uncertainty_s + host.stolen(before.times, after.times)
