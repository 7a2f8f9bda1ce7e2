"""Readings around a stretch, on faked trees and on this machine."""

import os
import subprocess
import sys
import threading
import time

import pytest

from pytest_gpuio.machine import numa_nodes
from pytest_gpuio.measure import surroundings


class Tree:
    def __init__(self, root):
        self.root = root

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def take(tree, cpus=(), devices=()):
    return surroundings.take(cpus, devices, root=str(tree.root))


def test_an_empty_tree_tells_nothing(tree):
    found = surroundings.between(take(tree), take(tree))
    assert found == {
        "cpu_throttles": None, "quota_stops": None, "longest_wait": None, "temperatures": [], "hot": [],
    }  # fmt: skip


def test_cpu_throttles_grow(tree):
    tree.write("sys/devices/system/cpu/online", "0-1")
    for cpu in (0, 1):
        for name in ("core_throttle_count", "package_throttle_count"):
            tree.write(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}", 7)
    before, before_all = take(tree, cpus=(1,)), take(tree)
    tree.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", 9)
    tree.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", 99)
    assert surroundings.between(before, take(tree, cpus=(1,)))["cpu_throttles"] == 2
    assert surroundings.between(before_all, take(tree))["cpu_throttles"] == 2 + 92


def test_the_thread_that_waited_longest_is_named(tree):
    tree.write("proc/self/task/7/comm", "worker0")
    tree.write("proc/self/task/7/schedstat", "1000 2000000000 5")
    before = take(tree)
    tree.write("proc/self/task/7/schedstat", "1000 2500000000 5")
    tree.write("proc/self/task/8/comm", "iou-sqp-7")
    tree.write("proc/self/task/8/schedstat", "1000 800000000 5")
    after = take(tree)
    assert surroundings.between(before, after)["longest_wait"] == {"thread": "iou-sqp-7", "seconds": 0.8}
    assert surroundings.waited_seconds(before, after) == 1.3


def test_a_thread_with_an_old_ones_id_has_waited_since_its_start(tree):
    tree.write("proc/self/task/7/schedstat", "1000 2000000000 5")
    before = take(tree)
    tree.write("proc/self/task/7/schedstat", "1000 500000000 5")
    assert surroundings.waited_seconds(before, take(tree)) == 0.5


def test_a_kernel_that_does_not_count_waits_is_unknown(tree):
    tree.write("proc/self/task/1/schedstat", "0 0 0")
    silent = take(tree)
    assert surroundings.waited_seconds(silent, silent) is None
    assert surroundings.between(silent, silent)["longest_wait"] is None


@pytest.mark.parametrize("sensor", ["hwmon3", "hwmon/hwmon3"])
def test_drive_temperatures(tree, sensor):
    folder = f"sys/block/nvme0n1/device/{sensor}"
    tree.write(f"{folder}/temp1_input", 41850)
    tree.write(f"{folder}/temp1_max", 81850)
    before = take(tree, devices=("nvme0n1",))
    tree.write(f"{folder}/temp1_input", 81850)
    found = surroundings.between(before, take(tree, devices=("nvme0n1",)))
    assert found["temperatures"] == [{"device": "nvme0n1", "before": 41.85, "after": 81.85}]
    assert found["hot"] == ["nvme0n1"]


def test_a_drive_that_raises_an_alarm_is_hot_at_any_temperature(tree):
    tree.write("sys/block/nvme0n1/device/hwmon1/temp1_input", 30000)
    tree.write("sys/block/nvme0n1/device/hwmon1/temp1_alarm", 1)
    assert take(tree, devices=("nvme0n1",)).hot == ("nvme0n1",)


def test_quota_of_this_group_and_those_above_version_2(tree):
    tree.write("proc/self/cgroup", "0::/a/b")
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpu io")
    tree.write("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 8")
    tree.write("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_throttled 4")
    tree.write("sys/fs/cgroup/cpu.stat", "usage_usec 5")
    assert take(tree).quota_stops == 7
    tree.write("sys/fs/cgroup/a/io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n9:0 rbps=1 wbps=max")
    assert surroundings.io_limits(("8:0",), str(tree.root)) == ("io.max of a: 8:0 rbps=1048576",)
    assert surroundings.io_limits(("7:0",), str(tree.root)) == ()


def test_quota_version_1(tree):
    tree.write("proc/self/cgroup", "4:cpu,cpuacct:/box\n3:blkio:/box\n0::/")
    tree.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 5")
    tree.write("sys/fs/cgroup/blkio/box/blkio.throttle.read_bps_device", "8:0 1048576")
    assert take(tree).quota_stops == 1
    found = surroundings.io_limits(("8:0",), str(tree.root))
    assert found == ("blkio.throttle.read_bps_device of box: 8:0 1048576",)


def test_in_a_container_the_mount_point_is_the_group(tree):
    # The name that /proc/self/cgroup shows is the host's, and leads nowhere inside.
    tree.write("proc/self/cgroup", "0::/system.slice/docker-1234.scope")
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpu io")
    tree.write("sys/fs/cgroup/cpu.stat", "nr_throttled 6")
    assert take(tree).quota_stops == 6


def test_nodes_of_cpus(tree):
    tree.write("sys/devices/system/node/node0/cpulist", "0-3,8-11")
    tree.write("sys/devices/system/node/node1/cpulist", "4-7,12-15")
    assert numa_nodes((9, 0), str(tree.root)) == (0,)
    assert numa_nodes((3, 4), str(tree.root)) == (0, 1)
    assert numa_nodes((-1,), str(tree.root)) == ()


def test_this_machine_tells_its_waits():
    before = surroundings.take((), ())
    sum(range(10**6))
    found = surroundings.between(before, surroundings.take((), ()))
    assert found["longest_wait"]["seconds"] >= 0.0


def test_waiting_for_a_cpu_is_seen_where_two_threads_share_one():
    mine = os.sched_getaffinity(0)
    tids = []

    def work():
        os.sched_setaffinity(0, {min(mine)})
        tids.append(threading.get_native_id())
        while time.thread_time() < 0.15:
            pass
        hold.wait(30)

    before = surroundings.take((), ())
    if not before.waits:
        pytest.skip("this kernel has no /proc/PID/schedstat")
    hold = threading.Event()
    # A process has one interpreter lock: the rivals are other processes.
    rival = f"import os, time; os.sched_setaffinity(0, {{{min(mine)}}})\nwhile time.process_time() < 0.4: pass"
    rivals = [subprocess.Popen([sys.executable, "-S", "-c", rival]) for _ in range(2)]
    thread = threading.Thread(target=work)
    thread.start()
    for rival in rivals:
        rival.wait()
    after = surroundings.take((), ())
    hold.set()
    thread.join()
    assert after.waits[tids[0]][1] / 1e9 > 0.05
    assert surroundings.waited_seconds(before, after) >= after.waits[tids[0]][1] / 1e9
