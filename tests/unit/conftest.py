"""Runs made from the golden record: real shape, chosen numbers."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_gpuio.results.runs import RunFile

GOLDEN = Path(__file__).parents[1] / "golden/cell_record.json"


@pytest.fixture
def record():
    """Function: a cell's record, ``factor`` times slower, dearer in CPU and with a longer p99 than the golden one."""
    golden = json.loads(GOLDEN.read_text())

    def make(factor=1.0, **changes):
        cell = copy.deepcopy(golden)
        cell["windows"]["seconds"] = [0.25 * factor * (1 + i / 1000) for i in range(4)]
        cell["cpu"]["gb_per_s_per_core"] /= factor
        cell["latency"]["lat"]["p99_ns"] = round(2007039 * factor)
        for path, value in changes.items():
            place = cell
            *above, last = path.split("__")
            for key in above:
                place = place[key]
            place[last] = value
        return cell

    return make


@pytest.fixture
def run():
    """Function: a run of cells; each call is a minute later than the one before."""
    clock = iter(range(10**6))

    def make(*cells, **more):
        number = next(clock)
        more.setdefault("machine", {"id": "a" * 16, "kernel": "6.1"})
        more.setdefault("created", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number))
        return RunFile(path=f"run{number}.json", cells={cell["case"]: cell for cell in cells}, **more)

    return make
