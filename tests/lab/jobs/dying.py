"""In the guest: drives that are well when a cell begins and not when it ends, beside one that stays well."""

import time
from pathlib import Path

from measuring import DEVICES, busy, gpuio, run, say, signal, start

sectors = int(Path("/sys/block", DEVICES["under_dm"].removeprefix("/dev/"), "size").read_text())
run("dmsetup", "create", "labhung", "--table", f"0 {sectors} linear {DEVICES['under_dm']} 0")
hung = f"/dev/{next(Path('/sys/block').glob('dm-*/dm')).parent.name}"
began = time.monotonic()
process = start(
    "dying",
    ["throttled", "removable", ("hung", hung), "nvme"],
    "--gpuio-datapath=psync,io_uring",
    "--gpuio-qd=1",
    "--gpuio-max-time=4s",
    "--gpuio-precision=0.1%",
    "--gpuio-timeout=10s",
    tests=("test_reads",),
)
# Warm-up is over by then, and a few windows have been measured.
busy(DEVICES["throttled"], 3.0)
signal("slow")
busy(DEVICES["removable"], 2.0)
signal("unplug")
busy(hung, 2.0)
run("dmsetup", "suspend", "--noflush", "--nolockfs", "labhung")
say("suspended")
status = process.wait()
say("dying ended with", status, "after", f"{time.monotonic() - began:.0f} s")
run("dmsetup", "resume", "labhung")
gpuio("validate", "/lab/dying.json")
