"""Lines of JSON: what goes in comes out, and nothing else is taken for a message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.isolation import messages
from pytest_gpuio.isolation.messages import LineBuffer, MessageError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_a_message_survives(message):
    line = messages.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert messages.decode(line[:-1]) == message
    assert json.loads(line) == message


def test_a_file_name_that_is_not_utf8_survives():
    name = b"/mnt/\xff".decode("utf-8", "surrogateescape")
    assert messages.decode(messages.encode({"path": name})[:-1]) == {"path": name}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), {1, 2}, b"bytes", object()])
def test_what_has_no_json_form_is_refused(value):
    with pytest.raises(MessageError, match="cannot be written as JSON"):
        messages.encode({"value": value})


def test_a_circle_is_refused():
    circle = {}
    circle["self"] = circle
    with pytest.raises(MessageError, match="Circular"):
        messages.encode(circle)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": 1} {"b": 2}',
        b"[" * 100_000,
        b"warning: something printed",
    ],
)
def test_what_is_not_json_is_refused(line):
    with pytest.raises(MessageError, match="is not JSON"):
        messages.decode(line)


@pytest.mark.parametrize("line", [b"[]", b"1", b"null", b'"text"'])
def test_what_is_not_an_object_is_refused(line):
    with pytest.raises(MessageError, match="not a JSON object"):
        messages.decode(line)


@given(st.dictionaries(st.text(), st.integers() | st.text(), max_size=4))
def test_any_cut_of_a_message_is_refused(message):
    line = messages.encode(message)[:-1]
    for cut in range(len(line)):
        with pytest.raises(MessageError):
            messages.decode(line[:cut])


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=6), st.data())
def test_lines_are_cut_the_same_however_they_arrive(lines, data):
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    buffer, seen = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        buffer.feed(stream[:size])
        stream = stream[size:]
        while (line := buffer.pop()) is not None:
            seen.append(line)
    assert seen == lines
    assert buffer.pending == len(b"rest")


def test_the_longest_line_passes_and_one_more_byte_does_not():
    line = messages.encode({"a": "x" * 10})
    assert messages.encode({"a": "x" * 10}, limit=len(line)) == line
    with pytest.raises(MessageError, match=f"{len(line)} bytes is over the limit of {len(line) - 1} bytes"):
        messages.encode({"a": "x" * 10}, limit=len(line) - 1)

    fits = LineBuffer(limit=len(line))
    fits.feed(line)
    assert fits.pop() == line[:-1]
    for piece in (line, line[:-1]):  # with and without its newline
        over = LineBuffer(limit=len(line) - 1)
        over.feed(piece)
        with pytest.raises(MessageError, match="over the limit"):
            over.pop()
