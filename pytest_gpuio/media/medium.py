"""What is known about a medium: its class, the evidence, and the block devices it stands on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A block device as sysfs describes it; None where sysfs does not say. Serial numbers are left out: privacy.

    Attributes:
        name: kernel name, ``nvme0n1``.
        dev: ``major:minor``; empty for a hidden NVMe path, which has no device number.
        model, firmware: as the device reports them.
        transport: ``pcie``, ``tcp``, ``rdma``, ``fc``, ``loop`` (NVMe); ``sata``, ``sas``, ``usb``, ``iscsi``,
            ``virtio``, ``xen``, ``nvdimm``; None when unknown.
        rotational: what the queue claims; virtio says yes on any backing.
        scheduler: the chosen I/O scheduler.
        logical_block, physical_block: bytes.
        max_sectors_kb: largest request in KiB.
        max_segments: pages or runs of pages in one request.
        nr_requests: requests the block layer queues.
        write_cache: ``write back`` or ``write through``.
        io_poll: the device has poll queues.
        poll_queues: how many; None where only debugfs could tell and does not.
        numa_node: None when the device has none (-1).
        link_bytes_per_s: what its PCI Express or SATA link can carry in one direction.
        pci_address: of the device, or of the adapter it hangs on, ``0000:17:00.0``; None without one.
        pci_link, pci_link_max: what the link runs at and what both ends could, ``16.0 GT/s x4``.
        dax: loads and stores of a mapping can reach it without the page cache.
        pmem_mode: of persistent memory, ``fsdax``, ``devdax``, ``sector`` or ``raw``.
        persistence_domain: from where on stores survive a power cut, ``memory_controller`` or ``cpu_cache``.
    """

    name: str
    dev: str
    model: str | None = None
    firmware: str | None = None
    transport: str | None = None
    rotational: bool | None = None
    scheduler: str | None = None
    logical_block: int | None = None
    physical_block: int | None = None
    max_sectors_kb: int | None = None
    max_segments: int | None = None
    nr_requests: int | None = None
    write_cache: str | None = None
    io_poll: bool | None = None
    poll_queues: int | None = None
    numa_node: int | None = None
    link_bytes_per_s: int | None = None
    pci_address: str | None = None
    pci_link: str | None = None
    pci_link_max: str | None = None
    dax: bool | None = None
    pmem_mode: str | None = None
    persistence_domain: str | None = None


@dataclass(frozen=True, slots=True)
class Medium:
    """What a path lies on.

    Attributes:
        name: one of :data:`pytest_gpuio.core.cell.MEDIA`.
        evidence: sentences that say how the class was found.
        file_system: type from the mount table; ``block device`` for a device node, empty when unknown.
        mount_point, mount_options, mount_source: from the mount table; empty when unknown.
        devices: physical devices after looking through partitions, dm, md and loop. When nothing physical lies below
            (loop over tmpfs, zram), the topmost whole device.
        counted: the devices whose counters cover the traffic, ``major:minor`` or the name of a hidden NVMe path; empty
            when there is none that counts.
    """

    name: str
    evidence: tuple[str, ...]
    file_system: str = ""
    mount_point: str = ""
    mount_options: str = ""
    mount_source: str = ""
    devices: tuple[BlockDevice, ...] = ()
    counted: tuple[str, ...] = ()
