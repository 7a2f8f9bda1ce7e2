"""In the guest: drives that must be left alone, have errors, or belong to a node; then a power cut, without polling."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from measuring import DEVICES, LAB, again, cells, run, say, signal, start

from pytest_gpuio.measure.task_time import read_task_time

# What this kernel says of all its tasks' time, while one of them is told its own.
told = []
for _ in range(2):
    time.sleep(0.05)  # the sum holds what a task has run when it gives up its processor
    told.append({"tasks": asdict(read_task_time()), "own_ns": time.process_time_ns(), "at_ns": time.monotonic_ns()})
    until = time.thread_time() + 1.0
    while time.thread_time() < until:
        pass
(LAB / "task_time.json").write_text(json.dumps(told))

# What protects a drive in use: held by the device mapper, mounted, or not named.
generic = {name: DEVICES[name].replace("/dev/nvme", "/dev/ng") for name in ("nvme", "nvme4k", "files")}
run("dmsetup", "create", "labheld", "--table", f"0 65536 linear {DEVICES['nvme4k']} 0")
# A file system with less room than is asked for.
run("mkfs.ext4", "-q", "-F", DEVICES["brd"])
Path("/mnt/full").mkdir()
run("mount", DEVICES["brd"], "/mnt/full")
with Path("/mnt/full/ballast").open("wb") as ballast:
    room = os.statvfs("/mnt/full")
    os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_bsize - (4 << 20))
run("sync")
signal("before")
WRITES, BLOCKS = "micro/randrw70", "micro/seqread"
#: (target, data path, depth, workload): what is measured, and what must not be.
WANTED = [
    ("optane", "io_uring", 4, WRITES),
    ("optane", "io_uring_full", 4, WRITES),
    ("numa_nvme", "io_uring", 4, WRITES),
    *((target, "io_uring_cmd", 4, WRITES) for target in ("unnamed", "held", "mounted")),
    ("optane", "psync", 1, BLOCKS),
    ("bad_nvme", "psync", 1, BLOCKS),
    ("bad_nvme", "libaio", 4, BLOCKS),
    ("bad_nvme", "io_uring", 4, BLOCKS),
    ("bad_virtio", "io_uring", 4, BLOCKS),
    ("full", "psync", 1, BLOCKS),
    ("optane", "io_uring", 4, BLOCKS),
]
words = "gpuio(target={!r}, datapath={!r}, qd={}, workload={!r})"
# One run: starting it is what takes longest.
cells(
    "drives",
    [
        ("optane", DEVICES["under_dm"]),
        "numa_nvme",
        "bad_nvme",
        "bad_virtio",
        ("full", "/mnt/full"),
        ("unnamed", generic["nvme"]),
        ("held", generic["nvme4k"]),
        ("mounted", generic["files"]),
    ],
    f"--gpuio-datapath={','.join(sorted({path for _, path, _, _ in WANTED}))}",
    "--gpuio-qd=1,4",
    "--gpuio-bs=32k",
    # Small enough for every cell to meet each block.
    "--gpuio-size=4M",
    # Permission for the block device is none for its generic one.
    allow=[
        *(DEVICES[name] for name in ("under_dm", "nvme", "numa_nvme", "bad_nvme", "bad_virtio")),
        *(generic["nvme4k"], generic["files"]),
    ],
    tests=("test_cell", "test_every_block"),
    mark=" or ".join(words.format(*wanted) for wanted in WANTED),
)
run("sync")
signal("after")
run("dmsetup", "remove", "labheld")

run("umount", "/mnt/ext4")
run("modprobe", "-C", "/dev/null", "-r", "nvme")
run("modprobe", "-C", "/dev/null", "nvme", "poll_queues=0")
# Controllers are found in any order, so that names may have changed.
nvme = again("nvme")

# A power cut during writes, with the results on a disk of their own.
run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", DEVICES["virtio"])
folder = Path("/mnt/results")
folder.mkdir()
run("mount", DEVICES["virtio"], folder)
process = start(
    "cut",
    [("nvme", nvme)],
    f"--gpuio-results={folder}/gpuio-results.json",
    "--gpuio-datapath=io_uring_iopoll,io_uring_full,io_uring,libaio",
    "--gpuio-qd=1,2,4,8",
    allow=[nvme],
)
# The start, skips of the paths that poll, and two cells are on the disk, a third is being measured, and writes.
until = time.monotonic() + 300
while sum(path.read_bytes().count(b'"kind":"cell"') for path in folder.glob("*.jsonl")) < 2:
    if process.poll() is not None or time.monotonic() > until:
        raise SystemExit("the run ended, or took too long, before the cut")
    time.sleep(0.1)
say("two cells are done")
time.sleep(0.7)
signal("cut")
