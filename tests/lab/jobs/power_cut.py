"""In the guest: cells whose results go to a disk, until the power is cut."""

import time
from pathlib import Path

from measuring import DEVICES, say, signal, start

folder = Path(DEVICES["ext4"], "results")
folder.mkdir()
process = start(
    "cut",
    ["nvme"],
    f"--gpuio-results={folder}/gpuio-results.json",
    "--gpuio-datapath=psync,libaio,io_uring,io_uring_iopoll",
    "--gpuio-qd=1,2,4,8",
    "--gpuio-bs=4k,8k",
)
# Two cells are on the disk, a third is being measured, and writes.
while sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl")) < 2:
    if process.poll() is not None:
        raise SystemExit("the run ended before the cut")
    time.sleep(0.1)
say("two cells are done")
time.sleep(0.7)
signal("cut")
