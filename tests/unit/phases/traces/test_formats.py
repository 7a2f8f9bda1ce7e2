"""Every format by hand-counted samples, the real traces by published figures, and what is refused."""

import gzip
import os

import numpy as np
import pytest

from pytest_gpuio.core.errors import ConfigError, TraceError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces import Reading, RequestTrace
from pytest_gpuio.phases.traces.block_trace import DISCARD, SYNC

NAMES = ["mooncake", "bailian", "azure", "burstgpt", "mlperf-kv", "iolog", "blkparse", "bpftrace", "msr"]
VARIANTS = ["burstgpt with sessions", "iolog v2"]


def totals(trace):
    if isinstance(trace, RequestTrace):
        return int(trace.input_tokens.sum()), int(trace.output_tokens.sum())
    return trace.bytes_of(READ), trace.bytes_of(WRITE)


def test_all_formats_are_here():
    assert {*NAMES, "servegen"} == set(traces.FORMATS)  # test_servegen.py


@pytest.mark.parametrize("name", NAMES + VARIANTS)
def test_each_format_is_known_by_its_content_and_read(trace_file, samples, name):
    text, (records, span, first, second) = samples[name]
    unix = text.replace("\r\n", "\n")
    for content in (text, gzip.compress(text.encode()), "\ufeff" + text, unix, unix.replace("\n", "\r\n")):
        path = trace_file(content)
        assert traces.detect(path).name == name.split()[0]
        trace = traces.load(path)
        assert trace.format == name.split()[0]
        assert len(trace) == records
        assert trace.span_ns == round(span * 1e9)
        assert totals(trace) == (first, second)
        assert trace.time_ns[0] == 0


@pytest.mark.parametrize("name", NAMES + VARIANTS)
def test_no_format_takes_another_ones_file(samples, name):
    head = [line.encode() for line in samples[name][0].strip().splitlines()]
    assert [entry.name for entry in traces.FORMATS.values() if entry.matches(head)] == [name.split()[0]]


def test_blocks_of_requests(trace_file, samples):
    trace = traces.load(trace_file(samples["mooncake"][0]))
    assert trace.block_ids.tolist() == [0, 1, 0, 2, 3]
    assert trace.block_start.tolist() == [0, 2, 4, 5]
    assert trace.block_tokens == 512


def test_operations_of_block_requests(trace_file, samples):
    trace = traces.load(trace_file(samples["blkparse"][0]))
    assert trace.op.tolist() == [READ, WRITE, SYNC]
    assert trace.offset.tolist() == [2048 * 512, 4096 * 512, 0]
    assert trace.files == ("8,16",)
    queued = traces.load(trace_file(samples["blkparse"][0]), reading=Reading(event="Q"))
    assert (len(queued), queued.bytes_of(READ)) == (1, 4096)
    trace = traces.load(trace_file("1, DS, 4096, 8, 8\n2, WFS, 512, 16, 1\n3, N, 0, 0, 0\n", "b"))
    assert trace.op.tolist() == [DISCARD, WRITE]


def test_only_queued_events_are_taken_and_told(trace_file, samples):
    text = samples["blkparse"][0].splitlines()[0] + "\n"
    trace = traces.load(trace_file(text))
    assert len(trace) == 1
    assert "queueing (Q)" in trace.notes[0]
    with pytest.raises(TraceError, match="no D events: try --event Q"):
        traces.load(trace_file(text), reading=Reading(event="D"))


def test_objects_have_tiers_and_stages(trace_file, samples):
    trace = traces.load(trace_file(samples["mlperf-kv"][0]))
    assert trace.files == ("layer0/user0", "layer0/user1")
    assert trace.tier.tolist() == [0, 0, 2, 2]
    assert [trace.stages[stage] for stage in trace.stage] == ["Prefill", "Decode", "Evict", "Decode"]
    storage = trace.on_storage()
    assert storage.op.tolist() == [WRITE, READ]
    assert "2 operations in memory tiers left out" in storage.notes[-1]


def test_disks_of_msr_are_files(trace_file, samples):
    trace = traces.load(trace_file(samples["msr"][0]))
    assert trace.files == ("hm.1", "wdev.0")
    assert trace.extents().tolist() == [383496192 + 32768, 1536]


def test_both_readings_of_wait(trace_file):
    text = "fio version 2 iolog\nf add\nf open\nf wait 100 0\nf read 0 512\nf wait 150 0\nf read 0 512\n"
    as_fio_does = traces.load(trace_file(text))
    assert as_fio_does.span_ns == 50_000_000
    assert "fio 3.33" in as_fio_does.notes[0]
    as_documented = traces.load(trace_file(text), reading=Reading(wait="us-since-previous"))
    assert as_documented.span_ns == 150_000


def test_an_iolog_without_times_says_so(trace_file):
    trace = traces.load(trace_file("fio version 2 iolog\nf add\nf open\nf read 0 4096\nf trim 0 4096\n"))
    assert not trace.timed
    assert trace.notes == ("no times: the I/O follows one another",)


def test_late_lines_are_sorted_and_told(trace_file):
    rows = [(1000, 10, [1]), (0, 20, [2]), (500, 530, [3, 4])]
    text = "".join(
        f'{{"timestamp": {t}, "input_length": {n}, "output_length": 1, "hash_ids": {ids}}}\n' for t, n, ids in rows
    )
    trace = traces.load(trace_file(text))
    assert trace.time_ns.tolist() == [0, 500_000_000, 1_000_000_000]
    assert trace.input_tokens.tolist() == [20, 530, 10]
    assert trace.block_ids.tolist() == [2, 3, 4, 1]
    assert "1 requests came before" in trace.notes[0]


REAL = {
    # workloads.md 1.3: requests, span in s, input p50, output p50, longest input; computed there from the same files.
    "mooncake/conversation_trace.jsonl": ("mooncake", 12_031, 3_537, 6_909, 350, 126_195),
    "mooncake/synthetic_trace.jsonl": ("mooncake", 3_993, 1_022, 11_587, 69, 191_378),
    "azure-llm/AzureLLMInferenceTrace_code.csv": ("azure", 8_819, 3_436, 1_469, 13, 7_437),
    "azure-llm/AzureLLMInferenceTrace_conv.csv": ("azure", 19_366, 3_502, 1_020, 129, 14_050),
}


@pytest.mark.parametrize("name", REAL)
def test_published_figures_of_real_traces(shared, name):
    format_, requests, span, median_in, median_out, longest = REAL[name]
    trace = traces.load(shared(name))
    assert trace.format == format_
    assert len(trace) == requests
    assert trace.span_ns / 1e9 == pytest.approx(span, abs=0.5)
    assert np.median(trace.input_tokens) == pytest.approx(median_in, abs=1)
    assert np.median(trace.output_tokens) == pytest.approx(median_out, abs=1)
    assert trace.input_tokens.max() == longest


def test_blocks_of_real_traces_are_counted_as_published(shared):
    for name, refs, unique in (("conversation", 288_500, 182_790), ("synthetic", 121_877, 43_924)):
        trace = traces.load(shared(f"mooncake/{name}_trace.jsonl"))
        assert (len(trace.block_ids), len(np.unique(trace.block_ids))) == (refs, unique)


SMALL = '{"timestamp": %s, "input_length": 10, "output_length": 1, "hash_ids": [%d]}\n'


def refusal(path, **kwargs):
    with pytest.raises(TraceError) as caught:
        traces.load(path, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("mooncake", '{"timestamp": 1, "input_length": 700, "output_length": 1, "hash_ids": [5]}', "1 hash_ids"),
        ("mooncake", '{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": [5]}', "timestamp 'nan'"),
        ("mooncake", '{"timestamp": 1, "input_length": true, "output_length": 1, "hash_ids": [5]}', "input_length"),
        ("mooncake", '{"timestamp": 1, "input_length": 1, "output_length": -1, "hash_ids": [5]}', "output_length '-1'"),
        ("mooncake", '{"timestamp": 1, "input_length": 600, "output_length": 1, "hash_ids": [5, 5]}', "twice"),
        ("mooncake", '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [-5]}', "outside 0"),
        ("mooncake", '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}', "a whole number"),
        ("mooncake", '{"timestamp": 1, "input_length": 1, "output_length": 1}', "not a list"),
        pytest.param("mooncake", "[" * 100_000, "is not JSON", id="deep"),
        ("mooncake", "[1]", "not a JSON object"),
        ("bailian", '{"chat_id": 1, "timestamp": "x", "input_length": 1, "output_length": 1, "hash_ids": [1]}', "'x'"),
        ("azure", "2023-11-16 24:00:00.0,1,1", "is not like"),
        ("azure", "2023-02-30 00:00:00.0,1,1", "not in the calendar"),
        ("azure", "2023-11-16 18:17:03.97,1", "2 fields where the header has 3"),
        ("azure", "2023-11-16 18:17:03.97,1.5,1", "input tokens '1.5'"),
        ("burstgpt", "5,ChatGPT,472,18.5,490,log", "output tokens"),
        ("burstgpt", "-5,ChatGPT,472,18,490,log", "timestamp"),
        ("mlperf-kv", "1.0,Trim,1,Tier-2,k,Decode", "none of Read, Write"),
        ("mlperf-kv", "1.0,Read,1,Tier-3,k,Decode", "none of Tier-0"),
        ("mlperf-kv", "1.0,Read,-1,Tier-2,k,Decode", "object size"),
        ("mlperf-kv", "1.0,Read,1,Tier-2,,Decode", "key"),
        ("mlperf-kv", "1.0,Read,1,Tier-2,k,Later", "phase"),
        ("mlperf-kv", "1.0,Read,1", "3 fields"),
        ("iolog", "20 /t/f1 read 0 512", "is not open"),
        ("iolog", "20 /t/f1 open", "was not added"),
        ("iolog", "20 /t/f0 frob", "none of add, open, close"),
        ("iolog", "20 /t/f0 frob 0 512", "none of read, write"),
        ("iolog", "20 /t/f0 read 0 4294967296", "above 4,294,967,295"),
        ("iolog", "x /t/f0 read 0 1", "timestamp 'x'"),
        ("iolog", "20", "neither 'file action'"),
        ("iolog", "20 " + "n" * 256 + " add", "256 characters"),
        ("blkparse", "  8,16   1        1     0.0  4719  D   R 2048 + 8 [dd]", "not an event"),
        ("blkparse", "  8,16   1        1     0.000000000  4719  D   R 99999999999999999999 [dd]", "no 'sector"),
        ("blkparse", "  8,16   1        1     0.000000000  4719  D   R 36028797018963968 + 8 [dd]", "beyond any"),
        ("blkparse", "  8,16   1        1     0.000000000  4719  D   ? 8 + 8 [dd]", "operation"),
        ("bpftrace", "45502109053447, W, 4096, 170104688, 9", "are not 9 sectors"),
        ("bpftrace", "45502109053447, Q, 4096, 170104688, 8", "operation"),
        ("bpftrace", "45502109053447, W, 4096", "is not nsecs"),
        ("msr", "1700000000,hm,1,Read,383496192,32768,413", "Windows file time"),
        ("msr", "128166372003061629,hm,1,Read,383496192", "is not filetime"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_told_by_its_number(trace_file, samples, name, line, why):
    lines = samples[name][0].splitlines()
    if name == "iolog":
        lines = lines[:-1]
    # Before a summary, where there is one.
    at = next((index for index, old in enumerate(lines) if old.startswith("CPU0")), len(lines))
    path = trace_file("\n".join([*lines[:at], line, *lines[at:]]) + "\n")
    text = refusal(path)
    assert f"{path}:{at + 1}: " in text
    assert why in text
    assert "--skip-malformed" in text
    kept = traces.load(path, skip_malformed=True)
    assert totals(kept) == samples[name][1][2:]
    assert f"1 malformed lines were skipped; the first: {path}:{at + 1}: " in " ".join(kept.notes)


def test_many_malformed_lines_end_the_reading(trace_file):
    path = trace_file(SMALL % (0, 0) + "rubbish\n" * 100)
    text = refusal(path)
    assert text.startswith("10 malformed lines (and perhaps more)")
    assert f"{path}:11: " in text
    assert f"{path}:12: " not in text
    assert "--format" in refusal(path, skip_malformed=True)


def test_what_is_no_trace_is_refused(trace_file, tmp_path):
    assert "is empty" in refusal(trace_file("\n\n"))
    assert "no known format" in refusal(trace_file("hello world\n"))
    assert "mooncake" in refusal(trace_file("hello world\n"))
    assert "is not a regular file" in refusal(tmp_path)
    assert "cannot be read: ENOENT" in refusal(tmp_path / "missing")
    assert "unpack it first (zstd -d" in refusal(trace_file(b"\x28\xb5\x2f\xfd rest"))
    assert "gzip data is damaged" in refusal(trace_file(gzip.compress(b"fio version 3 iolog\n" * 99)[:-20]))
    assert "holds no record" in refusal(trace_file("fio version 3 iolog\n"))
    assert "over 16 MiB" in refusal(trace_file(b"\0" * (17 << 20)))
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal(tmp_path / "pipe")


def test_a_named_format_is_insisted_on(trace_file, samples):
    path = trace_file(samples["msr"][0])
    assert "line 1 is no header with timestamp" in refusal(path, format_="azure")
    assert "line 1 is not the header Timestamp,Operation" in refusal(path, format_="mlperf-kv")
    assert "line 1 is not 'fio version 2 iolog'" in refusal(path, format_="iolog")
    with pytest.raises(ConfigError, match="'csv' is none of mooncake, bailian"):
        traces.load(path, format_="csv")


def test_choices_that_a_format_does_not_heed_are_refused(trace_file, samples):
    path = trace_file(samples["msr"][0])
    for reading, said in (
        (Reading(time_unit="s"), "--time-unit means nothing for msr traces; it is for mooncake"),
        (Reading(start_s=0.0), "--from means nothing"),
        (Reading(block_tokens=16), "--block-tokens"),
        (Reading(wait="ms-since-start"), "--wait"),
    ):
        with pytest.raises(ConfigError, match=said):
            traces.load(path, reading=reading)
    with pytest.raises(ConfigError, match="none of ms-since-start"):
        traces.load(trace_file(samples["iolog"][0]), reading=Reading(wait="x"))
    with pytest.raises(ConfigError, match="none of D"):
        traces.load(trace_file(samples["blkparse"][0]), reading=Reading(event="C"))
    with pytest.raises(ConfigError, match="blocks of 0 tokens"):
        traces.load(trace_file(samples["mooncake"][0]), reading=Reading(block_tokens=0))
    with pytest.raises(ConfigError, match="time unit 'h'"):
        traces.load(trace_file(samples["mooncake"][0]), reading=Reading(time_unit="h"))


@pytest.mark.parametrize(("step", "fits"), [(0.25, "s"), (250, None), (250_000, "us"), (250_000_000, "ns")])
def test_units_are_checked_by_the_rate_they_make(trace_file, step, fits):
    # Four requests a second; the format's unit is ms.
    path = trace_file("".join(SMALL % (f"{index * step:.12g}", index) for index in range(101)))
    if fits is None:
        assert traces.load(path).span_ns == 25_000_000_000
        return
    text = refusal(path)
    assert "if its times are in ms" in text
    assert f"--time-unit {fits}" in text
    trace = traces.load(path, reading=Reading(time_unit=fits))
    assert trace.span_ns == pytest.approx(25e9, rel=1e-9)
    assert traces.load(path, reading=Reading(time_unit="ms")).span_ns == pytest.approx(step * 1e8, rel=1e-9)


def test_a_span_of_centuries_is_refused(trace_file):
    path = trace_file(SMALL % (0, 0) + SMALL % (10**16, 1))
    assert f"{path}:2: the timestamp is over a century from the first one, in ms: --time-unit?" in refusal(path)


def test_blocks_of_another_size_are_found(trace_file):
    rows = [(0, 100, 2), (400, 65, 2), (800, 10, 1)]  # 64 tokens a block
    text = "".join(
        f'{{"timestamp": {t}, "input_length": {n}, "output_length": 1, "hash_ids": {list(range(i * 9, i * 9 + k))}}}\n'
        for i, (t, n, k) in enumerate(rows)
    )
    trace = traces.load(trace_file(text))
    assert trace.block_tokens == 64
    assert trace.notes == ("its blocks hold 64 tokens, not 512 as the format's do",)
    assert ":1: 2 hash_ids for 100 tokens: blocks of 512 tokens make 1" in refusal(
        trace_file(text), reading=Reading(block_tokens=512)
    )


def test_progress_is_told(trace_file):
    told = []
    path = trace_file("".join(SMALL % (index * 10, index) for index in range(70_000)))
    traces.load(path, progress=lambda done, size: told.append((done, size)))
    assert len(told) == 1
    assert 0 < told[0][0] <= told[0][1] == path.stat().st_size
