"""In the guest: an Optane drive by its model; what must not be overwritten; a driver without poll queues."""

import hashlib
import json
from pathlib import Path

from measuring import DEVICES, LAB, cells, run


def checksums():
    found = {}
    for name in ("nvme", "nvme4k", "files"):
        with Path(DEVICES[name]).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


generic = {name: DEVICES[name].replace("/dev/nvme", "/dev/ng") for name in ("nvme", "nvme4k", "files")}
run("dmsetup", "create", "labheld", "--table", f"0 65536 linear {DEVICES['nvme4k']} 0")
run("sync")
before = checksums()
cells(
    "refused",
    [("unnamed", generic["nvme"]), ("held", generic["nvme4k"]), ("mounted", generic["files"])],
    "--gpuio-datapath=io_uring_cmd",
    "--gpuio-qd=1",
    # Permission for the block device is none for its generic one.
    allow=[DEVICES["nvme"], generic["nvme4k"], generic["files"]],
)
(LAB / "checksums.json").write_text(json.dumps([before, checksums()]))
run("dmsetup", "remove", "labheld")

cells("optane", ["nvme"], "--gpuio-datapath=io_uring,io_uring_full", "--gpuio-qd=4")

run("umount", "/mnt/ext4")
run("modprobe", "-C", "/dev/null", "-r", "nvme")
run("modprobe", "-C", "/dev/null", "nvme", "poll_queues=0")
cells("unpolled", ["nvme"], "--gpuio-datapath=io_uring,io_uring_iopoll,io_uring_full", "--gpuio-qd=4")
