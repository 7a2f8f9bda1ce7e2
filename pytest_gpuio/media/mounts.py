"""The mount table: which file system a path lies on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``/proc/self/mountinfo``.

    Attributes:
        device: ``(major, minor)`` of the superblock; major 0 is an anonymous device.
        point: where it is mounted.
        file_system: type, ``fuse.hf3fs`` form included.
        source: what was mounted, ``/dev/nvme0n1p1`` or ``server:/export``.
        options: mount options and superblock options, comma separated, in that order, each once.
    """

    device: tuple[int, int]
    point: str
    file_system: str
    source: str
    options: str

    def option(self, name: str) -> str | None:
        """Value of a ``name=value`` option, None when it is not set."""
        for word in self.options.split(","):
            key, equals, value = word.partition("=")
            if equals and key == name:
                return value
        return None


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The mounts of a mountinfo text in its own order; lines that do not follow proc(5) are left out."""
    mounts = []
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if not separator or len(fields) < 6 or len(rest) < 2:
            continue
        device = parse_device(fields[2])
        if device is None:
            continue
        options = dict.fromkeys(fields[5].split(","))
        if len(rest) > 2:
            options.update(dict.fromkeys(rest[2].split(",")))
        mounts.append(
            Mount(
                device=device,
                point=_unescape(fields[4]),
                file_system=_unescape(rest[0]),
                source=_unescape(rest[1]),
                options=_unescape(",".join(options)),
            )
        )
    return tuple(mounts)


def read_mounts(root: Path) -> tuple[Mount, ...]:
    """The mount table under ``root``; empty when it cannot be read."""
    try:
        return parse_mountinfo((root / "proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def mount_of(path: str, mounts: Iterable[Mount], device: tuple[int, int] | None) -> Mount | None:
    """The mount that an absolute path without symbolic links lies on.

    Args:
        path: absolute path.
        mounts: in mount order; a later mount on the same point hides the earlier one.
        device: ``st_dev`` of the path where known. It tells a hidden mount from the visible one; file systems whose
            files carry another device number than their superblock (btrfs, overlay) are found by path alone.
    """
    here = PurePosixPath(path)
    above = [mount for mount in mounts if here.is_relative_to(mount.point)]
    same_device = [mount for mount in above if mount.device == device]
    best: Mount | None = None
    for mount in same_device or above:
        if best is None or len(mount.point) >= len(best.point):
            best = mount
    return best


def parse_device(text: str) -> tuple[int, int] | None:
    """``(8, 1)`` of ``8:1``; None when it is something else."""
    major, colon, minor = text.strip().partition(":")
    if not (colon and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    return int(major), int(minor)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
