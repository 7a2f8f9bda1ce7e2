"""The trace that the suite makes for itself has the published shape of Mooncake's conversations."""

import json

from pytest_gpuio.crosscheck import replays, suite
from pytest_gpuio.phases import traces


def test_the_made_trace_has_the_published_shape(tmp_path):
    path = tmp_path / "made.jsonl"
    path.write_text("".join(replays.lines()))
    trace = traces.load(path)
    assert len(trace) == 12_031
    assert trace.format == "mooncake"
    assert trace.block_ids is not None
    # Requests, 288,500 uses of blocks, stamps 3 s apart over an hour (FAST '25 trace).
    assert abs(len(trace.block_ids) - 288_500) < 3_000
    assert round(trace.quantum_ns() / 1e9, 1) == 3.0
    assert 3_400 < trace.span_ns / 1e9 < 3_600
    assert json.loads(next(replays.lines()))["hash_ids"][0] == 0


def test_its_lines_are_part_of_the_suite():
    assert {"trace-expand", "trace-start"} <= {claim.name for claim in suite.claims()}
