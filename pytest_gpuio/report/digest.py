"""What the tables at the end of a run need of a record: a tenth of it, so that thousands fit into memory."""

from __future__ import annotations

from typing import Any, Final, cast

from pytest_gpuio.results.record import CellRecord

_WHOLE: Final = ("axes", "phase", "gb_per_s", "iops", "bytes", "seconds", "gpu")
_CPU: Final = ("cores_used", "cores_reserved", "gb_per_s_per_core")
_LATENCY: Final = ("p50_ns", "p99_ns", "p999_ns")


def digest(record: CellRecord) -> CellRecord:
    """A record without what no table of :mod:`pytest_gpuio.report` shows; of its gates, those that it did not pass."""
    full = cast("dict[str, Any]", record)
    found = {name: full[name] for name in _WHOLE}
    found["cpu"] = {name: full["cpu"][name] for name in _CPU}
    found["latency"] = {"lat": {name: full["latency"]["lat"][name] for name in _LATENCY}}
    found["windows"] = {"seconds": full["windows"]["seconds"]}
    found["gates"] = [gate for gate in full["gates"] if gate["state"] == "failed"]
    if "replay" in full:
        found["replay"] = full["replay"]
    return cast("CellRecord", found)
