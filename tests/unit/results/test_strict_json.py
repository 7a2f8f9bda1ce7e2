import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.results import strict_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 1]))
def test_what_is_written_reads_back(value, indent):
    text = strict_json.dumps(value, indent=indent)
    assert text.isascii()
    assert strict_json.loads(text, source="x") == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_json_lacks_are_not_written(value):
    with pytest.raises(strict_json.JsonError, match=r"^record\.cpu\[1\]\.seconds cannot be written as JSON: "):
        strict_json.dumps({"a": 1, "cpu": [{}, {"seconds": value}]}, what="record")


def test_objects_json_lacks_are_not_written():
    with pytest.raises(strict_json.JsonError, match=r"^value\.path cannot be written"):
        strict_json.dumps({"path": object()})
    loop = []
    loop.append(loop)
    with pytest.raises(strict_json.JsonError, match=r"^value cannot be written"):
        strict_json.dumps(loop)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "f.json:1:7: NaN is not JSON."),
        ('{"NaN": "NaN",\n "b": [1, -Infinity]}', "f.json:2:11: -Infinity is not JSON."),
        ('[Infinity]', "f.json:1:2: Infinity is not JSON."),
        ('{"a": 1e999}', "f.json:1:7: number 1e999... is out of range."),
        ('{"a": 0.1000000000000000055511151231257827021181583404541015625, "b": -1e999}',
         "f.json:1:71: number -1e999... is out of range."),
        ('{"a": ' + "1" * 5000 + "}", "f.json:1:7: number 11111111111111111111... is out of range."),
        ('{"a": 1,\n  "b": {"a": 2},\n  "\\u0061": 3}', "f.json:3:3: duplicate key 'a'."),
        ('{"a": ["a", "a", {"b": 1, "b": 1}]}', "f.json:1:27: duplicate key 'b'."),
        ('{"a": 1,}', "f.json:1:9: not JSON: "),
        ("", "f.json:1:1: not JSON: Expecting value."),
        ("[" * 100_000, "f.json: nested too deeply"),
    ],
)  # fmt: skip
def test_refused_texts_are_placed(text, message):
    with pytest.raises(strict_json.JsonError) as error:
        strict_json.loads(text, source="f.json")
    assert str(error.value).startswith(message)


@given(values, st.data())
def test_a_nan_anywhere_is_found(value, data):
    text = json.dumps({"first": value, "bad": math.nan}, indent=data.draw(st.sampled_from([None, 2])))
    with pytest.raises(strict_json.JsonError) as error:
        strict_json.loads(text, source="f")
    line, column = map(int, str(error.value).split(":")[1:3])
    assert text.split("\n")[line - 1][column - 1 :].startswith("NaN")


def test_files(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes('{"é": 1}'.encode())
    assert strict_json.read(path) == {"é": 1}
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(strict_json.JsonError, match="byte 7 is not UTF-8"):
        strict_json.read(path)
    with pytest.raises(GpuioError, match=r"nowhere\.json cannot be read: No such file"):
        strict_json.read(tmp_path / "nowhere.json")
    with pytest.raises(GpuioError, match="cannot be read"):
        strict_json.read(tmp_path)
