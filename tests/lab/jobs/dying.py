"""In the guest: drives that are well when a cell begins and not when it ends, beside one that stays well."""

import time
from pathlib import Path

from measuring import DEVICES, busy, run, say, signal, start


def sectors(path):
    return int(Path("/sys/block", path.removeprefix("/dev/"), "size").read_text())


def mapped(name, table):
    """A device-mapper device by its kernel name."""
    run("dmsetup", "create", name, "--table", table)
    found = {path.read_text().strip(): path.parents[1].name for path in Path("/sys/block").glob("dm-*/dm/name")}
    return f"/dev/{found[name]}"


hung = mapped("labhung", f"0 {sectors(DEVICES['under_dm'])} linear {DEVICES['under_dm']} 0")
# A thin volume of 64 MiB in a pool of 24 MiB: room for what is laid out, not for a second copy of it.
run("modprobe", "-C", "/dev/null", "dm_thin_pool")
pool = mapped("labpool", f"0 {24 << 11} thin-pool {DEVICES['brd']} {DEVICES['under_md0']} 128 0 1 error_if_no_space")
run("dmsetup", "message", "labpool", "0", "create_thin 0")
thin = mapped("labthin", f"0 {64 << 11} thin {pool} 0")

began = time.monotonic()
# The second path is for what the first one left: a device that is gone, a child that hangs.
left = "gpuio(datapath='psync') or gpuio(target='removable') or gpuio(target='hung')"
reads = f"gpuio(workload='micro/randread') and not gpuio(target='thin') and ({left})"
process = start(
    "dying",
    ["throttled", "removable", ("thin", thin), ("hung", hung), "nvme"],
    "--gpuio-datapath=psync,io_uring",
    "--gpuio-qd=1",
    "--gpuio-max-time=3s",
    "--gpuio-precision=0.1%",
    "--gpuio-timeout=10s",
    tests=("test_reads", "test_cell"),
    mark=f"({reads}) or (gpuio(workload='micro/randrw70', datapath='psync', target='thin'))",
)
# Warm-up is over by then, and a few windows have been measured.
busy(DEVICES["throttled"], 2.0, process)
signal("slow")
busy(DEVICES["removable"], 1.5, process)
signal("unplug")
# The order of cells is pytest's: the tests of reads come first.
busy(hung, 1.5, process)
run("dmsetup", "suspend", "--noflush", "--nolockfs", "labhung")
say("suspended")
busy(thin, 1.0, process)
# From now on each write wants a block of its own.
run("dmsetup", "suspend", "labthin")
run("dmsetup", "message", "labpool", "0", "create_snap 1 0")
run("dmsetup", "resume", "labthin")
say("snapshot taken")
status = process.wait()
say("dying ended with", status, "after", f"{time.monotonic() - began:.0f} s")
run("dmsetup", "resume", "labhung")
