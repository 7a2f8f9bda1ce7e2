"""In the guest: drives with a bad sector and a full file system, beside a drive that is well."""

import os
from pathlib import Path

from measuring import DEVICES, cells, gpuio, run

# A file system with less room than is asked for.
run("mkfs.ext4", "-q", "-F", DEVICES["brd"])
Path("/mnt/full").mkdir()
run("mount", DEVICES["brd"], "/mnt/full")
with Path("/mnt/full/ballast").open("wb") as ballast:
    room = os.statvfs("/mnt/full")
    os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_bsize - (4 << 20))

paths = "--gpuio-datapath=psync,libaio,io_uring"
depths = "gpuio(qd=4) or gpuio(datapath='psync')"
targets = ["bad_nvme", "bad_virtio", ("full", "/mnt/full"), "nvme"]
# Small enough for every cell to meet each block.
cells("broken", targets, paths, "--gpuio-qd=1,4", "--gpuio-size=4M", tests=("test_reads",), mark=depths)
gpuio("validate", "/lab/broken.json")
