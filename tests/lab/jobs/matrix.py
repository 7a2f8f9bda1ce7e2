"""In the guest: every data path on every medium, and the interrupts of polled and of other requests."""

import json

from measuring import DEVICES, LAB, ONE_DEPTH, cells, gpuio, interrupts, say

TARGETS = [name for name in DEVICES if not name.startswith(("under_", "files"))]


def counted(name, path):
    """Interrupts of the NVMe drive's I/O queues while a laid-out target is read by one data path."""
    prefix = DEVICES["nvme"].removeprefix("/dev/").partition("n1")[0] + "q"
    before = interrupts(prefix)
    cells(name, ["nvme"], f"--gpuio-datapath={path}", "--gpuio-qd=4", "--gpuio-verify=none", test="test_reads")
    return interrupts(prefix) - before


cells("matrix", TARGETS, "--gpuio-qd=1,4", mark=ONE_DEPTH)
seen = {path: counted(f"counted_{path}", path) for path in ("io_uring", "io_uring_iopoll")}
(LAB / "interrupts.json").write_text(json.dumps(seen))
for target in ("nvmeof", "dax"):
    if target in DEVICES:
        gpuio("probe", DEVICES[target], "--json", f"/lab/probe_{target}.json")
say("done")
