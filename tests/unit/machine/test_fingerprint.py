"""The fingerprint of the host, on faked machines and on this one."""

import gzip
import json
import os
import resource
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.machine import affinity, describe
from pytest_gpuio.machine.reading import parse_cpu_list

X86 = """processor\t: 0
model name\t: AMD EPYC 7763 64-Core Processor
flags\t\t: fpu sse2 {flag}

processor\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
flags\t\t: fpu sse2 {flag}
"""
KEYS = {
    "id",
    "kernel",
    "architecture",
    "cpu",
    "memory_bytes",
    "clocksource",
    "hypervisor",
    "io_uring_disabled",
    "aio_max_nr",
    "aio_nr",
    "memlock_limit",
    "transparent_hugepage",
    "irq_time_accounting",
    "cpu_quota",
    "python",
}


@pytest.fixture
def machine(tmp_path):
    """Function: writes files given as path=text pairs and describes the machine."""

    def write_and_describe(files=()):
        for path, text in dict(files).items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return describe(str(tmp_path))

    return write_and_describe


def test_nothing_readable_is_all_null(machine):
    found = machine()
    assert set(found) == KEYS
    assert set(found["cpu"].values()) == {None}
    silent = KEYS - {"id", "architecture", "cpu", "python"}
    assert {key: found[key] for key in silent} == dict.fromkeys(silent)
    json.dumps(found, allow_nan=False)


def test_a_physical_x86_machine(machine):
    cpu = "sys/devices/system/cpu"
    found = machine(
        {
            "proc/cpuinfo": X86.format(flag="avx2"),
            f"{cpu}/online": "0-3,8\n",
            f"{cpu}/smt/active": "1\n",
            "sys/devices/system/node/online": "0-1\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
            f"{cpu}/cpu0/cpuidle/state0/name": "POLL\n",
            f"{cpu}/cpu0/cpuidle/state2/name": "C2\n",
            f"{cpu}/cpu0/cpuidle/state2/disable": "0\n",
            f"{cpu}/cpu0/cpuidle/state10/name": "C10\n",
            f"{cpu}/cpu0/cpuidle/state10/disable": "1\n",
            "proc/meminfo": "MemTotal:       131072 kB\nMemAvailable:    1024 kB\n",
            "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",  # a bare-metal instance: no flag, so not virtual
            "proc/sys/kernel/io_uring_disabled": "2\n",
            "proc/sys/fs/aio-max-nr": "65536\n",
            "proc/sys/kernel/osrelease": "6.12.95\n",
            "boot/config-6.12.95": "CONFIG_X=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "proc/self/limits": "Limit  Soft Limit  Units\nMax locked memory    8388608    unlimited    bytes\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        }
    )
    assert found["cpu"] == {
        "model": "AMD EPYC 7763 64-Core Processor",
        "cores": 5,
        "smt": True,
        "numa_nodes": 2,
        "governor": "performance,powersave",
        "scaling_driver": "acpi-cpufreq",
        "max_cstate": "C2",
    }
    assert found["hypervisor"] is None
    assert found["memory_bytes"] == 131072 * 1024
    assert (found["io_uring_disabled"], found["aio_max_nr"], found["memlock_limit"]) == (2, 65536, 8388608)
    assert (found["kernel"], found["clocksource"]) == ("6.12.95", "tsc")
    assert found["irq_time_accounting"] is True
    assert found["transparent_hugepage"] == "madvise"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/cpuinfo": X86.format(flag="hypervisor")}, "unknown"),
        ({"proc/cpuinfo": X86.format(flag="hypervisor"), "sys/class/dmi/id/sys_vendor": "QEMU"}, "QEMU"),
        ({"proc/cpuinfo": X86.format(flag="hypervisor"), "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "Amazon EC2"),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        (
            {
                "proc/cpuinfo": "processor : 0\nCPU part : 0xd40\n",
                "sys/class/dmi/id/product_name": "KVM Virtual Machine",
            },
            "KVM",
        ),
        ({"proc/cpuinfo": "processor : 0\nCPU part : 0xd40\n"}, None),
    ],
)
def test_hypervisors(machine, files, expected):
    assert machine(files)["hypervisor"] == expected


def test_arm_model(machine):
    found = machine({"proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nprocessor\t: 1\n"})
    assert found["cpu"]["model"] == "implementer 0x41 part 0xd40"
    assert found["cpu"]["cores"] == 2


def test_configuration_in_proc(machine):
    config = gzip.compress(b"# CONFIG_IRQ_TIME_ACCOUNTING is not set\n")
    assert machine({"proc/config.gz": config})["irq_time_accounting"] is False
    assert machine({"proc/config.gz": config[:20]})["irq_time_accounting"] is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/not/visible\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ({"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/a\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "nonsense\n"}, None),
    ],
)
def test_cpu_quota(machine, files, expected):
    assert machine(files)["cpu_quota"] == expected


def test_identity_follows_the_hardware_and_nothing_else(machine):
    hardware = {"proc/cpuinfo": X86.format(flag=""), "proc/meminfo": "MemTotal: 131900000 kB\n"}
    first = machine(hardware)["id"]
    assert len(first) == 16
    assert machine({"proc/sys/kernel/osrelease": "6.99", "proc/meminfo": "MemTotal: 131890000 kB\n"})["id"] == first
    assert machine({"proc/meminfo": "MemTotal: 65900000 kB\n"})["id"] != first


@given(st.sets(st.integers(0, 4095), min_size=1))
def test_cpu_lists(numbers):
    assert parse_cpu_list(",".join(map(str, sorted(numbers)))) == tuple(sorted(numbers))


def test_cpu_list_ranges_and_garbage():
    assert parse_cpu_list("0-2,5") == (0, 1, 2, 5)
    assert parse_cpu_list(None) == parse_cpu_list("") == parse_cpu_list("a-b") == ()


def test_this_machine():
    found = describe()
    assert set(found) == KEYS
    json.dumps(found, allow_nan=False)
    assert found["kernel"] == os.uname().release
    assert found["architecture"] == os.uname().machine
    assert found["cpu"]["cores"] == int(
        subprocess.run(["getconf", "_NPROCESSORS_ONLN"], capture_output=True, check=True).stdout
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert abs(found["memory_bytes"] - pages) < 0.01 * pages
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert found["memlock_limit"] == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    assert describe()["id"] == found["id"]


def test_affinity_is_what_the_process_was_given():
    allowed = os.sched_getaffinity(0)
    assert affinity() == tuple(sorted(allowed))
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert affinity() == (min(allowed),)
    finally:
        os.sched_setaffinity(0, allowed)
