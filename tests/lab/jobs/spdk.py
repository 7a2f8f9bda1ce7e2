"""In the guest: an NVMe drive over PCI Express by the kernel, then by SPDK, which waits until nobody else has it.

Through vfio-pci where the machine has an IOMMU, else through uio_pci_generic.
"""

from pathlib import Path

from measuring import DEVICES, LAB, cells, run

disk = DEVICES["removable"].removeprefix("/dev/")
device = Path("/sys/block", disk, "device/device").resolve()
target = f"spdk:pci:{device.name}"
Path("/proc/sys/vm/nr_hugepages").write_text("256")
Path("/dev/hugepages").mkdir(exist_ok=True)
run("mount", "-t", "hugetlbfs", "hugetlbfs", "/dev/hugepages")

paths = [("kernel", DEVICES["removable"]), ("lab", target)]
cells("before", paths, "--gpuio-datapath=io_uring,spdk", "--gpuio-qd=4", allow=[path for _, path in paths])

driver = "vfio-pci" if "iommu" in DEVICES else "uio_pci_generic"
run("modprobe", "-C", "/dev/null", driver)
(device / "driver/unbind").write_text(device.name)
(device / "driver_override").write_text(driver)
Path("/sys/bus/pci/drivers_probe").write_text(device.name)
(LAB / "driver").write_text((device / "driver").resolve().name)
# Requests above the controller's largest transfer go in parts.
cells("spdk", [("lab", target)], "--gpuio-bs=4k,1M", "--gpuio-qd=4", "--gpuio-verify=full", allow=[target])
