"""Everything that a result records of one block device."""

from __future__ import annotations

from pathlib import Path

from pytest_gpuio.media.links import link_rate, pci_folder, pci_link
from pytest_gpuio.media.medium import BlockDevice
from pytest_gpuio.media.nvdimm import namespace_mode, persistence_domain
from pytest_gpuio.media.sysfs import chosen, numa_node, read_flag, read_int, read_text, transport


def describe_device(node: Path, root: Path = Path("/")) -> BlockDevice:
    """Everything a result records of the whole disk whose sysfs folder is ``node``.

    Args:
        node: resolved.
        root: folder that holds ``sys``.
    """
    queue = node / "queue"
    attached = transport(node)
    pci = pci_folder(node)
    io_poll = read_flag(queue / "io_poll")
    return BlockDevice(
        name=node.name.replace("!", "/"),
        dev=read_text(node / "dev") or "",
        model=read_text(node / "device/model"),
        firmware=read_text(node / "device/firmware_rev") or read_text(node / "device/rev"),
        transport=attached,
        rotational=read_flag(queue / "rotational"),
        scheduler=chosen(read_text(queue / "scheduler")),
        logical_block=read_int(queue / "logical_block_size"),
        physical_block=read_int(queue / "physical_block_size"),
        max_sectors_kb=read_int(queue / "max_sectors_kb"),
        max_segments=read_int(queue / "max_segments"),
        nr_requests=read_int(queue / "nr_requests"),
        write_cache=read_text(queue / "write_cache"),
        io_poll=io_poll,
        poll_queues=0 if io_poll is False else _poll_queues(root / "sys/kernel/debug/block" / node.name),
        numa_node=numa_node(node),
        link_bytes_per_s=link_rate(node, attached),
        pci_address=None if pci is None else pci.name,
        pci_link=None if pci is None else pci_link(pci, "current"),
        pci_link_max=None if pci is None else pci_link(pci, "max"),
        dax=read_flag(queue / "dax"),
        pmem_mode=namespace_mode(node),
        persistence_domain=persistence_domain(node),
    )


def _poll_queues(folder: Path) -> int | None:
    """Hardware queues that are polled, as debugfs lists them: for root, where it is mounted."""
    try:
        kinds = [read_text(queue / "type") for queue in folder.iterdir() if queue.name.startswith("hctx")]
    except OSError:
        return None
    return kinds.count("poll") if kinds and None not in kinds else None
