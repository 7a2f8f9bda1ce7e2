"""In the guest: every data path on every medium."""

import json

from measuring import DEVICES, LAB, ONE_DEPTH, cells, say

TARGETS = [name for name in DEVICES if not name.startswith(("under_", "files"))]
POLLED = "(gpuio(datapath='io_uring_iopoll') or gpuio(datapath='io_uring_full'))"
#: Newer kernels poll only for reads of files.
FOLDERS = "(gpuio(target='ext4') or gpuio(target='dax_off'))"
READS = f"(gpuio(workload='micro/randread', qd=4) and {FOLDERS} and {POLLED})"
#: How a cell's failure reads when a deadline was over.
LATE = ("said nothing for", "did not come back within", "was not over within")


def late(results):
    """Marks of the cells that failed because time was over."""
    for failure in json.loads(results.read_text())["failures"]:
        if any(words in failure["reason"] for words in LATE):
            axes = dict(part.split("=", 1) for part in failure["case"].split("|")[1:])
            names = ("datapath", "target", "workload")
            yield f"gpuio({', '.join(f'{name}={axes[name]!r}' for name in names)}, qd={axes['qd']})"


def measure(name, mark):
    cells(name, TARGETS, "--gpuio-qd=1,4", tests=("test_cell", "test_reads"), mark=mark)


# No GPU can be emulated: what ends in one is skipped everywhere for one reason, which a single target shows.
GPU = "(not gpu or gpuio(target='nvme'))"
measure("matrix", f"(gpuio(workload='micro/randrw70') and ({ONE_DEPTH}) and {GPU}) or {READS}")
# A busy host may stop its guest for minutes: what was late has a second chance, and only that.
again = list(late(LAB / "matrix.json"))
if again:
    measure("again", " or ".join(again))
say("done")
