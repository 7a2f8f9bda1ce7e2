"""In the guest: an Optane drive by its model; what must not be overwritten; a driver without poll queues."""

from measuring import DEVICES, cells, run, signal

generic = {name: DEVICES[name].replace("/dev/nvme", "/dev/ng") for name in ("nvme", "nvme4k", "files")}
run("dmsetup", "create", "labheld", "--table", f"0 65536 linear {DEVICES['nvme4k']} 0")
run("sync")
signal("before")
# One run for both, as starting it is what takes longest: a drive that may be measured beside three that may not.
targets = [
    ("optane", DEVICES["under_dm"]),
    ("unnamed", generic["nvme"]),
    ("held", generic["nvme4k"]),
    ("mounted", generic["files"]),
]
cells(
    "guarded",
    targets,
    "--gpuio-datapath=io_uring,io_uring_full,io_uring_cmd",
    "--gpuio-qd=4",
    # Permission for the block device is none for its generic one.
    allow=[DEVICES["under_dm"], DEVICES["nvme"], generic["nvme4k"], generic["files"]],
)
run("sync")
signal("after")
run("dmsetup", "remove", "labheld")

run("umount", "/mnt/ext4")
run("modprobe", "-C", "/dev/null", "-r", "nvme")
run("modprobe", "-C", "/dev/null", "nvme", "poll_queues=0")
cells("unpolled", ["nvme"], "--gpuio-datapath=io_uring,io_uring_iopoll,io_uring_full", "--gpuio-qd=4")
