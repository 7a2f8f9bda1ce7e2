"""Every error of core crosses the pipe as itself."""

import inspect

import pytest

from pytest_gpuio.core import errors
from pytest_gpuio.isolation import messages
from pytest_gpuio.isolation.failures import decode_failure, encode_failure

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.GpuioError)]


def cross(error):
    """There and back, over a real line."""
    return decode_failure(messages.decode(messages.encode(encode_failure(error, "a test"))[:-1]))


@pytest.mark.parametrize("kind", ALL)
def test_class_text_and_attributes_survive(kind):
    error = kind("littles_law", "what happened") if kind is errors.CellVoid else kind("what happened")
    for attribute, value in (("errno", 28), ("traceback", "File x, line 1")):
        if hasattr(error, attribute):
            setattr(error, attribute, value)
    back = cross(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_an_unknown_subclass_becomes_the_nearest_known_one():
    class Refused(errors.TargetError):
        pass

    assert type(cross(Refused("mounted"))) is errors.TargetError


def test_an_unexpected_exception_keeps_its_last_line_and_its_traceback():
    def inner():
        return {}["missing"]

    try:
        inner()
    except KeyError as error:
        back = cross(error)
    assert type(back) is errors.ChildFault
    assert str(back) == "unexpected error in a test: KeyError: 'missing'"
    assert "in inner" in back.traceback
    assert back.traceback.startswith("Traceback")


def test_a_failure_always_fits_into_a_line():
    line = messages.encode(encode_failure(ValueError("x" * messages.MAX_LINE), "a test"), limit=1_000_000)
    assert "xxx" in messages.decode(line[:-1])["message"]


@pytest.mark.parametrize("failure", [{}, {"kind": "Martian", "message": "m"}, {"kind": None}])
def test_an_unknown_kind_is_a_plain_error(failure):
    assert type(decode_failure(failure)) is errors.GpuioError
