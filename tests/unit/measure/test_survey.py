"""Remedies for settings, on made-up machines."""

import pytest

from pytest_gpuio.measure.survey import remedies, slow_links
from pytest_gpuio.media import BlockDevice

MACHINE = {"clocksource": "tsc", "hypervisor": None, "cpu": {"governor": "performance"}}
LIMITS = {
    "memlock_limit": "unlimited", "aio_max_nr": 65536, "aio_nr": 0, "io_uring_disabled": 0,
    "transparent_hugepage": "madvise", "cpu_quota": None, "open_files_soft": 4096, "open_files_hard": 4096,
    "may_lock_all": False,
}  # fmt: skip
CLOCK = {"source": "tsc", "cost_ns": 10.0, "resolution_ns": 10, "reason": None}


def test_a_machine_without_a_fault_needs_none():
    assert remedies(MACHINE, LIMITS, CLOCK) == []
    unknown = dict.fromkeys(LIMITS)
    assert remedies(MACHINE | {"cpu": {"governor": None}}, unknown, dict.fromkeys(CLOCK)) == []


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"io_uring_disabled": 2}, "off for everybody: sysctl -w kernel.io_uring_disabled=0"),
        ({"io_uring_disabled": 1}, "CAP_SYS_ADMIN"),
        ({"memlock_limit": 65536}, "65,536 bytes"),
        ({"open_files_soft": 256}, "only 256 files"),
        ({"aio_nr": 60000}, "fs.aio-max-nr=131072"),
        ({"transparent_hugepage": "never"}, "echo madvise"),
        ({"cpu_quota": 1.5}, "allows 1.5 CPUs"),
    ],
)
def test_each_limit(limit, words):
    (sentence,) = remedies(MACHINE, LIMITS | limit, CLOCK)
    assert words in sentence


def test_who_may_lock_everything_needs_no_limit():
    assert remedies(MACHINE, LIMITS | {"memlock_limit": 65536, "may_lock_all": True}, CLOCK) == []


def test_clock_governor_and_virtual_machine():
    (clock,) = remedies(MACHINE | {"clocksource": "hpet"}, LIMITS, CLOCK | {"source": "monotonic", "cost_ns": 900.0})
    assert "900 ns" in clock
    assert "hpet" in clock
    (governor,) = remedies(MACHINE | {"cpu": {"governor": "powersave"}}, LIMITS, CLOCK)
    assert "powersave" in governor
    (virtual,) = remedies(MACHINE | {"hypervisor": "KVM"}, LIMITS, CLOCK)
    assert "KVM" in virtual


def test_a_link_that_runs_below_what_it_could():
    slow = BlockDevice("nvme0n1", "259:0", pci_link="8.0 GT/s x4", pci_link_max="32.0 GT/s x4")
    full = BlockDevice("nvme1n1", "259:1", pci_link="16.0 GT/s x4", pci_link_max="16.0 GT/s x4")
    (sentence,) = slow_links([slow, full, BlockDevice("sda", "8:0")])
    assert sentence.startswith("nvme0n1 hangs on a link of 8.0 GT/s x4 that could run at 32.0 GT/s x4: ")
