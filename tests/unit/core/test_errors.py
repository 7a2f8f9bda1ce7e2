"""The texts of errors."""

import errno
import os

import pytest

from pytest_gpuio.core import errors


def test_errno_text_of_either_sign():
    assert (
        errors.errno_text(errno.ENOSPC) == errors.errno_text(-errno.ENOSPC) == f"ENOSPC ({os.strerror(errno.ENOSPC)})"
    )
    assert errors.errno_text(9999).startswith("errno 9999 (")


def test_errors_carry_their_facts():
    assert errors.EngineError("broken", 5).errno == 5
    assert errors.EngineError("broken").errno == 0
    void = errors.CellVoid("littles_law", "off by 20 %")
    assert (void.gate, str(void)) == ("littles_law", "littles_law: off by 20 %")


def test_every_error_is_ours():
    own = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(own) >= 8
    for error in own:
        assert issubclass(error, errors.GpuioError)
        assert error.__doc__


def test_ours_can_be_caught_by_one_name():
    with pytest.raises(errors.GpuioError, match="nothing"):
        raise errors.Busy("nothing")
