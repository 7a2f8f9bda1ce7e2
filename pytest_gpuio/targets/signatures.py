"""What a block device holds, by the marks that file systems, partition tables and volume managers leave."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

#: What :attr:`Content.other` says of bytes that carry no known mark.
UNKNOWN: Final = "unknown data"
#: The first and the last so many bytes of a device are looked at.
EDGE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """What lies on a device.

    Attributes:
        partitions: the kind of partition table, ``GPT``; empty without one.
        member: what the device is a part of, ``LVM physical volume``; empty when it is none.
        other: what else was found, ``ext file system``, or ``unknown data``; empty when all bytes looked at are zero.
    """

    partitions: str = ""
    member: str = ""
    other: str = ""

    @property
    def signature(self) -> str:
        """What somebody may still need, in words; empty when no mark was found."""
        if self.partitions:
            return f"a partition table ({self.partitions})"
        if self.member:
            return f"the mark of a {self.member}"
        return f"the signature of {self.other}" if self.other not in ("", UNKNOWN) else ""


# (offset, bytes there, what it is): the formats' own documents, and the kernel's headers of the same names.
_MEMBERS: Final = (
    *((sector * 512, b"LABELONE", "LVM physical volume") for sector in range(4)),
    (0, b"\xfc\x4e\x2b\xa9", "md RAID member"),
    (4096, b"\xfc\x4e\x2b\xa9", "md RAID member"),
    (0, b"bluestore block device", "Ceph BlueStore device"),
    (4096 + 24, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"), "bcache device"),
)
_OTHERS: Final = (
    (0, b"LUKS\xba\xbe", "LUKS encrypted volume"),
    (1080, b"\x53\xef", "ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "XFS file system"),
    (65536 + 64, b"_BHRfS_M", "btrfs file system"),
    (1024, b"\x10\x20\xf5\xf2", "F2FS file system"),
    (1024, b"\xe2\xe1\xf5\xe0", "EROFS file system"),
    (0, b"hsqs", "SquashFS image"),
    (32769, b"CD001", "ISO 9660 image"),
    (3, b"NTFS    ", "NTFS file system"),
    (3, b"EXFAT   ", "exFAT file system"),
    (54, b"FAT", "FAT file system"),
    (82, b"FAT32", "FAT file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4086, b"SWAP-SPACE", "swap space"),
    (65536 - 10, b"SWAPSPACE2", "swap space"),
)
_MD_MAGIC: Final = 0xA92B4EFC
_ZFS_UBERBLOCK: Final = 0x00BAB10C
_MBR_ENTRIES: Final = range(446, 510, 16)


def recognize(head: bytes, tail: bytes, size: int) -> Content:
    """What a device holds.

    Args:
        head: its first :data:`EDGE_BYTES`, or all of a smaller device.
        tail: its last bytes, likewise.
        size: bytes of the whole device.
    """
    return Content(_partition_table(head, tail), _member(head, tail, size), _other(head, tail))


def _partition_table(head: bytes, tail: bytes) -> str:
    if any(head[sector : sector + 8] == b"EFI PART" for sector in (512, 4096)):
        return "GPT"
    # The second copy outlives tools that only clear the beginning.
    if any(tail[-sector : len(tail) - sector + 8] == b"EFI PART" for sector in (512, 4096) if len(tail) >= sector):
        return "GPT (its second copy, at the end)"
    if head[510:512] != b"\x55\xaa":
        return ""
    entries = [struct.unpack_from("<B3xB3xII", head, start) for start in _MBR_ENTRIES]
    # A FAT or NTFS boot sector ends in the same two bytes, but holds code where the table would be.
    sound = all(boot in (0, 0x80) for boot, _kind, _first, _sectors in entries)
    return "MBR" if sound and any(kind and sectors for _boot, kind, _first, sectors in entries) else ""


def _member(head: bytes, tail: bytes, size: int) -> str:
    found = _found(head, _MEMBERS)
    if found:
        return found
    # md 0.90 lies in the last whole 64 KiB but one; md 1.0 8 to 12 KiB before the end, on 4 KiB.
    start = size - len(tail)
    for at in ((size & ~0xFFFF) - 0x10000, ((size - 8192) & ~0xFFF)):
        if at >= start and int.from_bytes(tail[at - start : at - start + 4], "little") == _MD_MAGIC:
            return "md RAID member"
    # Each of the four labels of a ZFS device holds a ring of uberblocks in its second half.
    for label in (0, 256 << 10):
        for at in range(label + (128 << 10), min(label + (256 << 10), len(head) - 8), 1024):
            value = head[at : at + 8]
            if _ZFS_UBERBLOCK in (int.from_bytes(value, "little"), int.from_bytes(value, "big")):
                return "ZFS pool member"
    return ""


def _other(head: bytes, tail: bytes) -> str:
    found = _found(head, _OTHERS)
    if found:
        return found
    return UNKNOWN if any(head) or any(tail) else ""


def _found(head: bytes, marks: tuple[tuple[int, bytes, str], ...]) -> str:
    return next((what for at, mark, what in marks if head[at : at + len(mark)] == mark), "")
