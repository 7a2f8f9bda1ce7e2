"""Counters of the block layer, summed over the devices that a medium's traffic goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuio.media.medium import Medium
from pytest_gpuio.media.sysfs import read_text

# Sectors in a stat file are 512 bytes whatever the device's block size.
_SECTOR = 512


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums over devices since they appeared, or the growth between two readings.

    Attributes:
        read_ios, write_ios: requests completed by the devices.
        read_bytes, write_bytes: bytes completed.
        read_ticks, write_ticks: milliseconds, summed over requests.
        in_flight: requests inside the devices at the moment of the reading (of the later one for a difference).
        io_ticks_ms: milliseconds with at least one request inside, summed over devices.
        time_in_queue_ms: milliseconds of all requests together; per millisecond of time it is the mean depth.
    """

    read_ios: int
    read_bytes: int
    read_ticks: int
    write_ios: int
    write_bytes: int
    write_ticks: int
    in_flight: int
    io_ticks_ms: int
    time_in_queue_ms: int

    def __sub__(self, earlier: Counters) -> Counters:
        """Growth since an earlier reading of the same devices."""
        return Counters(
            read_ios=self.read_ios - earlier.read_ios,
            read_bytes=self.read_bytes - earlier.read_bytes,
            read_ticks=self.read_ticks - earlier.read_ticks,
            write_ios=self.write_ios - earlier.write_ios,
            write_bytes=self.write_bytes - earlier.write_bytes,
            write_ticks=self.write_ticks - earlier.write_ticks,
            in_flight=self.in_flight,
            io_ticks_ms=self.io_ticks_ms - earlier.io_ticks_ms,
            time_in_queue_ms=self.time_in_queue_ms - earlier.time_in_queue_ms,
        )

    def __add__(self, other: Counters) -> Counters:
        """Sum over two sets of devices."""
        return Counters(
            read_ios=self.read_ios + other.read_ios,
            read_bytes=self.read_bytes + other.read_bytes,
            read_ticks=self.read_ticks + other.read_ticks,
            write_ios=self.write_ios + other.write_ios,
            write_bytes=self.write_bytes + other.write_bytes,
            write_ticks=self.write_ticks + other.write_ticks,
            in_flight=self.in_flight + other.in_flight,
            io_ticks_ms=self.io_ticks_ms + other.io_ticks_ms,
            time_in_queue_ms=self.time_in_queue_ms + other.time_in_queue_ms,
        )


def device_counters(medium: Medium, root: str = "/") -> Counters | None:
    """Counters of :attr:`Medium.counted`, summed; None when there is no device that counts or one went away."""
    return read_counters(medium.counted, root)


def read_counters(counted: Sequence[str], root: str = "/") -> Counters | None:
    """As :func:`device_counters`, for a process that was told only which devices to count."""
    total: Counters | None = None
    for device in counted:
        folder = "sys/dev/block" if ":" in device else "sys/block"
        counters = parse_stat(read_text(f"{root.rstrip('/')}/{folder}/{device}/stat") or "")
        if counters is None:
            return None
        total = counters if total is None else total + counters
    return total


def parse_stat(text: str) -> Counters | None:
    """The counters of a block device's ``stat`` file; None when it is not one."""
    try:
        fields = [int(word) for word in text.split()]
    except ValueError:
        return None
    if len(fields) < 11:
        return None
    return Counters(
        read_ios=fields[0],
        read_bytes=fields[2] * _SECTOR,
        read_ticks=fields[3],
        write_ios=fields[4],
        write_bytes=fields[6] * _SECTOR,
        write_ticks=fields[7],
        in_flight=fields[8],
        io_ticks_ms=fields[9],
        time_in_queue_ms=fields[10],
    )
