"""The table medium x data path of a run, from its results file: what worked, and why the rest did not apply."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: What a gate must have said of a cell whose bytes were right and went where the cell says.
PROVED = ("path_proved", "no_errors", "no_short_io", "data_verified")
#: Gates that judge speed. Emulated processors that share real ones are slower than the drive, so these may void a cell
#: here whose bytes are right.
TIMING = frozenset({"depth_achieved", "littles_law", "enough_io", "clock_sane", "cpu_account", "not_faster_than_link"})

_KINDS = ("cells", "voids", "skips", "failures")
_DISKS = r"nvme\d+(c\d+)?n\d+|sd[a-z]|vd[a-z]|pmem\d+|zram\d+|ram\d+|loop\d+|labnull|nullb\d+|dm-\d+|md_lab"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a cell.

    Attributes:
        state: ``ok``, ``n/a`` or ``FAILED``.
        reason: one sentence; empty for a cell that was recorded.
        gates: gate -> (state, words), where the cell was measured.
        target: what the record says about the target, where there is one.
    """

    state: str
    reason: str = ""
    gates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)


def fates(results: Path, workload: str = "micro/randrw70") -> dict[tuple[str, str], Fate]:
    """(target, data path) -> fate, of one workload."""
    told = json.loads(results.read_text())
    told = {kind: [each for each in told[kind] if _axes(each).get("workload") == workload] for kind in _KINDS}
    found: dict[tuple[str, str], Fate] = {}
    for cell in told["cells"]:
        gates = {gate["gate"]: (gate["state"], gate["detail"]) for gate in cell["gates"]}
        found[cell["axes"]["target"], cell["axes"]["datapath"]] = _measured(gates, "", cell["target"])
    for void in told["voids"]:
        words = [re.fullmatch(r"(\w+) (\w+): (.*)", line, re.DOTALL) for line in void["evidence"]]
        gates = {word[1]: (word[2], word[3]) for word in words if word}
        reason = f"timing means nothing here: {void['gate']}" if void["gate"] in TIMING else void["reason"]
        fate = _measured(gates, reason, {})
        found[void["axes"]["target"], void["axes"]["datapath"]] = fate
    for kind, state in (("skips", "n/a"), ("failures", "FAILED")):
        for entry in told[kind]:
            axes = _axes(entry)
            found[axes["target"], axes["datapath"]] = Fate(state, entry["reason"])
    return found


def _axes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a cell, a void, a skip or a failure; empty for what never became a cell."""
    return dict(part.split("=", 1) for part in (entry["case"] or "").split("|") if "=" in part)


def _measured(gates: Mapping[str, tuple[str, str]], reason: str, target: Mapping[str, Any]) -> Fate:
    wrong = [f"{gate} {gates.get(gate, ('missing', ''))}" for gate in PROVED if gates.get(gate, ("",))[0] != "passed"]
    wrong += [f"{name} {said}" for name, said in gates.items() if said[0] == "failed" and name == "device_bytes"]
    # Voids of other gates are no matter of speed.
    wrong += [reason] if reason and not reason.startswith("timing") else []
    return Fate("FAILED", "; ".join(wrong), gates, target) if wrong else Fate("ok", reason, gates, target)


def table(rows: Sequence[tuple[str, str]], paths: Iterable[str], found: Mapping[tuple[str, str], Fate]) -> str:
    """Text of the table; every cell has a word, and what is no plain ``ok`` a note.

    Args:
        rows: (target, its title).
        paths: the columns.
        found: of :func:`fates`.
    """
    paths = tuple(paths)
    notes: dict[str, int] = {}
    lines = [["medium", *paths]]
    for target, title in rows:
        line = [title]
        for path in paths:
            fate = found.get((target, path), Fate("BLANK"))
            mark = f" {notes.setdefault(_general(fate.reason), len(notes) + 1)}" if fate.reason else ""
            line.append(f"{fate.state}{mark}")
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([*text, "", *(f"{number:>2}  {note}" for note, number in notes.items())])


def _general(reason: str) -> str:
    """The sentence without the one device it speaks of, so that equal reasons share a note."""
    reason = re.sub(r"/dev/[\w/.]+|/mnt/\w+", "TARGET", reason)
    return re.sub(rf"\b({_DISKS})\b", "DISK", reason)
