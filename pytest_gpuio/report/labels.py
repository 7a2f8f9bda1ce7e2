"""Names of cells in tables: as short as they can be, and never two alike for different cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.core.sizes import format_size

#: Axes shown only when they differ from what nearly every cell has.
_USUAL: Final = {
    "target": "default",
    "destination": "host",
    "jobs": 1,
    "batch": "1x1",
    "cache": "direct",
    "durability": "none",
    "arrivals": "closed",
    "gpus": 1,
    "ranks": 1,
}
Axes = Mapping[str, Any]


def short_case(axes: Axes) -> str:
    """A cell's axes in a few words: ``inference/kv_fetch io_uring nvme_ssd 64k qd32``; usual values are left out."""
    return f"{axes['workload']} {within_workload(axes)}"


def within_workload(axes: Axes) -> str:
    """What tells cells of one workload apart: ``io_uring virtual 64k qd32``."""
    parts = [str(axes["datapath"]), str(axes["medium"])]
    parts += [f"{axes[axis]}" for axis in ("target", "destination") if axes[axis] != _USUAL[axis]]
    if axes.get("gpus", _USUAL["gpus"]) != _USUAL["gpus"]:
        parts.append(f"gpus{axes['gpus']}")
    parts += [format_size(int(axes["bs"])), f"qd{axes['qd']}"]
    if axes["jobs"] != _USUAL["jobs"]:
        parts.append(f"jobs{axes['jobs']}")
    if axes.get("ranks", _USUAL["ranks"]) != _USUAL["ranks"]:
        parts.append(f"ranks{axes['ranks']}")
    if axes["batch"] != _USUAL["batch"]:
        parts.append(f"batch{axes['batch']}")
    parts += [f"{axes[axis]}" for axis in ("cache", "durability", "arrivals") if axes[axis] != _USUAL[axis]]
    return " ".join(parts)


def apart(cells: Sequence[Axes]) -> list[str]:
    """For each of the cells of one workload: its data path, and what else differs among them."""
    whole = [within_workload(axes).split(" ") for axes in cells]
    if len({str(axes["datapath"]) for axes in cells}) == len(cells):
        return [words[0] for words in whole]
    shared = set.intersection(*(set(words) for words in whole))
    return [" ".join([words[0], *(word for word in words[1:] if word not in shared)]) for words in whole]


def shorten(text: str, room: int) -> str:
    """Cut in the middle: the workload at one end and the sizes at the other tell cells apart."""
    if len(text) <= room:
        return text
    tail = (room - 3) // 2
    return f"{text[: room - 3 - tail]}...{text[-tail:]}"


def cut_alike(texts: Sequence[str], room: int) -> bool:
    """Whether two different texts look the same once they are cut, or parameters of a workload are cut off."""
    different = set(texts)
    parameters = any("[" in text and len(text) > room for text in different)
    return parameters or len({shorten(text, room) for text in different}) < len(different)


def folded(workload: str, room: int) -> list[str]:
    """A workload with its parameters in lines of at most ``room`` characters, as far as its words allow."""
    lines = [""]
    for part in re.split(r"(?<=[,\[])", workload):
        if len(lines[-1]) + len(part) > room and lines[-1].strip():
            lines.append("    ")
        lines[-1] += part
    return lines
