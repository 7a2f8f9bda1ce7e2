"""Any line either becomes a record whose totals match, or is refused by its number; any bytes end in an answer."""

import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import GpuioError, TraceError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.traces import RequestTrace

HEADERS = {
    "mooncake": b"",
    "bailian": b"",
    "azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "burstgpt": b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
    "mlperf-kv": b"Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n",
    "iolog": b"fio version 3 iolog\n0 f add\n0 f open\n",
    "blkparse": b"",
    "bpftrace": b"",
    "msr": b"",
    "servegen": b"",
}
LINES = [name for name in HEADERS if name != "servegen"]
#: Two numbers of a record: input and output tokens, or offset and length in sectors.
PAIR = st.tuples(st.integers(0, 100_000), st.integers(1, 100_000))


def good_line(name, pair, stamp, odd):
    """A line of a format, for a pair of numbers; ``odd`` chooses between operations."""
    first, second = pair
    match name:
        case "mooncake" | "bailian":
            size = 512 if name == "mooncake" else 16
            row = {"timestamp": stamp, "input_length": first, "output_length": second}
            row["hash_ids"] = list(range(stamp, stamp + -(-first // size)))
            return json.dumps({"chat_id": 7, **row} if name == "bailian" else row)
        case "azure":
            return f"2023-11-{stamp % 28 + 1:02} {stamp % 24:02}:00:00.{stamp},{first},{second}"
        case "burstgpt":
            return f"{stamp},GPT-4,{first},{second},{first + second},log"
        case "mlperf-kv":
            return f"{stamp}.5,{('Read', 'Write')[odd]},{second * 512},Tier-2,key{first},Decode"
        case "iolog":
            return f"{stamp} f {('read', 'write')[odd]} {first * 512} {second * 512}"
        case "blkparse":
            return f"  8,0 1 1 {stamp}.000000001 77 {('D', 'Q')[odd]} {('R', 'WS')[odd]} {first} + {second} [a b]"
        case "bpftrace":
            return f"{stamp}, {('R', 'WFS')[odd]}, {second * 512}, {first}, {second}"
        case "msr":
            return f"1281663720{stamp:08},hm,1,{('Read', 'Write')[odd]},{first * 512},{second * 512},5"


@st.composite
def any_line(draw, name):
    """Right lines, right ones with some characters changed, and noise."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.binary(max_size=60)).replace(b"\n", b" ")
    pair, stamp, odd = draw(PAIR), draw(st.integers(0, 10**6)), draw(st.booleans())
    line = bytearray(good_line(name, pair, stamp, odd).encode())
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line) - 1))
        line[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b"-", b"9", b",", b" ", b"R", b"\xff", b"."])
        )
    return bytes(line)


def answer(path, name):
    """The trace, or the numbers of the lines that are refused."""
    try:
        return traces.load(path, format_=name)
    except TraceError as error:
        text = str(error)
        assert text.startswith(str(path)) or re.match(r"[\d,]+ malformed lines", text)
        return [int(number) for number in re.findall(rf"{re.escape(str(path))}:(\d+): ", text)]
    except GpuioError:
        assert name == "servegen"  # nothing is drawn in the first hour
        return []


def numbers_of(found):
    """The pair that the only record holds; of objects, whose place nothing tells, the length only."""
    assert len(found) == 1
    if isinstance(found, RequestTrace):
        return [int(found.input_tokens[0]), int(found.output_tokens[0])]
    return [int(found.offset[0]) // 512, int(found.length[0]) // 512][found.format == "mlperf-kv" :]


@pytest.mark.parametrize("name", LINES)
@given(pair=PAIR, stamp=st.integers(0, 10**6), odd=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_right_line_is_a_record_of_its_numbers(tmp_path_factory, name, pair, stamp, odd):
    path = tmp_path_factory.mktemp("fuzz") / "trace"
    path.write_bytes(HEADERS[name] + good_line(name, pair, stamp, odd).encode() + b"\n")
    found = traces.load(path)
    assert found.format == name
    assert numbers_of(found) == list(pair)[name == "mlperf-kv" :]


@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_line_is_a_record_or_is_refused_by_its_number(tmp_path_factory, name, data):
    line = data.draw(any_line(name))
    path = tmp_path_factory.mktemp("fuzz") / "trace"
    path.write_bytes(HEADERS[name] + line + b"\n")
    found = answer(path, name)
    if isinstance(found, list):
        # No line at all: it is empty or the tool's own talk, or the file begins as a compressed one.
        assert found in ([HEADERS[name].count(b"\n") + 1], [])
        return
    digits = {int(text) for text in re.findall(rb"\d+", line)}
    in_bytes = digits | {number // 512 for number in digits}
    for number in numbers_of(found):
        assert number in in_bytes or number == 0  # a flush has neither place nor length


@pytest.mark.parametrize("name", HEADERS)
@given(body=st.binary(max_size=300))
@settings(max_examples=40, deadline=None)
def test_any_bytes_end_in_an_answer(tmp_path_factory, name, body):
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "c-trace.csv"
    path.write_bytes(HEADERS[name] + body)
    (folder / "c-dataset.json").write_bytes(body)
    answer(path, name)
    with contextlib.suppress(GpuioError):
        traces.load(path)


@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_skipping_leaves_exactly_the_good_lines(tmp_path_factory, name, data):
    path = tmp_path_factory.mktemp("fuzz") / "trace"
    rights = data.draw(st.lists(st.booleans(), min_size=1, max_size=12))
    pairs = [data.draw(PAIR) for _ in rights]
    rows = [good_line(name, pair, index * 1000, 0) for index, pair in enumerate(pairs)]
    wrong = [row.replace("ut_length", "ut?").replace(" + ", " ? ") for row in rows]
    wrong = [bad if bad != row else row[:-4] + "?" + "," * 9 for row, bad in zip(rows, wrong, strict=True)]
    chosen = [row if right else bad for row, bad, right in zip(rows, wrong, rights, strict=True)]
    path.write_bytes(HEADERS[name] + "\n".join(chosen).encode() + b"\n")
    if rights.count(False) > rights.count(True):
        assert "Is it a trace of this format" in str(refused(path, name)) or not any(rights)
        return
    kept = traces.load(path, format_=name, skip_malformed=True)
    good = [pair for pair, right in zip(pairs, rights, strict=True) if right]
    assert len(kept) == len(good)
    totals = (kept.input_tokens if isinstance(kept, RequestTrace) else kept.length // 512).sum()
    assert totals == sum(pair[0] if isinstance(kept, RequestTrace) else pair[1] for pair in good)


def refused(path, name):
    with pytest.raises(TraceError) as caught:
        traces.load(path, format_=name, skip_malformed=True)
    return caught.value
