"""In the guest: every data path on every medium."""

from measuring import DEVICES, ONE_DEPTH, cells, gpuio, say

TARGETS = [name for name in DEVICES if not name.startswith(("under_", "files"))]
POLLED = "(gpuio(datapath='io_uring_iopoll') or gpuio(datapath='io_uring_full'))"
#: Newer kernels poll only for reads of files.
FOLDERS = "(gpuio(target='ext4') or gpuio(target='dax_off'))"
READS = f"(gpuio(workload='micro/randread', qd=4) and {FOLDERS} and {POLLED})"

mark = f"(gpuio(workload='micro/randrw70') and ({ONE_DEPTH})) or {READS}"
cells("matrix", TARGETS, "--gpuio-qd=1,4", tests=("test_cell", "test_reads"), mark=mark)
gpuio("validate", "/lab/matrix.json")
gpuio("probe", DEVICES["nvmeof"], "--json", "/lab/probe_nvmeof.json")
say("done")
