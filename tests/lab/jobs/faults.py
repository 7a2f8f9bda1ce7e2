"""In the guest: drives that fail in each way, beside one that does not."""

import os
import time
from pathlib import Path

from measuring import DEVICES, busy, cells, gpuio, run, say, signal, start

GOOD = "nvme"

# A file system with less room than is asked for.
run("mkfs.ext4", "-q", "-F", DEVICES["brd"])
Path("/mnt/full").mkdir()
run("mount", DEVICES["brd"], "/mnt/full")
with Path("/mnt/full/ballast").open("wb") as ballast:
    room = os.statvfs("/mnt/full")
    os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_bsize - (10 << 20))

paths = "--gpuio-datapath=psync,libaio,io_uring"
depths = "gpuio(qd=4) or gpuio(datapath='psync')"
targets = ["bad_nvme", "bad_virtio", ("full", "/mnt/full"), GOOD]
cells("broken", targets, paths, "--gpuio-qd=1,4", "--gpuio-size=32M", tests=("test_reads",), mark=depths)
gpuio("validate", "/lab/broken.json")

# Those that are well when a cell begins and are not when it ends.
sectors = int(Path("/sys/block", DEVICES["under_dm"].removeprefix("/dev/"), "size").read_text())
run("dmsetup", "create", "labhung", "--table", f"0 {sectors} linear {DEVICES['under_dm']} 0")
hung = f"/dev/{next(Path('/sys/block').glob('dm-*/dm')).parent.name}"
began = time.monotonic()
process = start(
    "dying",
    ["throttled", "removable", ("hung", hung), GOOD],
    "--gpuio-datapath=psync,io_uring",
    "--gpuio-qd=1",
    "--gpuio-max-time=6s",
    "--gpuio-precision=0.1%",
    "--gpuio-timeout=10s",
    tests=("test_reads",),
)
# Warm-up is over by then, and a few windows have been measured.
busy(DEVICES["throttled"], 6.0)
signal("slow")
busy(DEVICES["removable"], 3.0)
signal("unplug")
busy(hung, 3.0)
run("dmsetup", "suspend", "--noflush", "--nolockfs", "labhung")
say("suspended")
status = process.wait()
say("dying ended with", status, "after", f"{time.monotonic() - began:.0f} s")
run("dmsetup", "resume", "labhung")
gpuio("validate", "/lab/dying.json")
