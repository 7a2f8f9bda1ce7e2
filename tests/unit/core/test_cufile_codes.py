import re
from pathlib import Path

import pytest

from pytest_gpuio.core.cufile_codes import CODES, cufile_text, is_cufile_code
from pytest_gpuio.core.errors import errno_text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (5001, ("modprobe nvidia-fs", "P2PDMA", "gds_compat")),
        (5007, ("IOMMU",)),
        (5008, ("data=ordered", "XFS")),
        (5020, ("O_DIRECT",)),
        (5027, ("udev", "mount option", "E:ID_FS_USAGE=filesystem")),
        (5033, ("libcuda.so.1",)),
        (5036, ("BAR1",)),
    ],
)
def test_the_remedy_is_told(code, words):
    for word in words:
        assert word in cufile_text(code)


def test_each_code_has_a_cause_and_a_remedy_and_no_full_stop():
    for code, (name, happened, remedy) in CODES.items():
        assert is_cufile_code(code)
        assert re.fullmatch(r"[A-Z_]+", name)
        assert len(happened) > 10
        assert len(remedy) > 8
        assert not happened.endswith(".")
        assert not remedy.endswith(".")


def test_a_code_nobody_knows_is_no_error():
    assert cufile_text(5098) == "cuFile 5098 unknown: a code of a newer libcufile: see cufile.h of its release"


@pytest.mark.parametrize("code", [0, 4999, 5000, 5100, -5000, 5, -5])
def test_other_numbers_are_not_cufile_s(code):
    assert not is_cufile_code(code)


def test_errno_text_has_both_decoders():
    assert errno_text(-28).startswith("ENOSPC (")
    assert errno_text(-5020).startswith("cuFile 5020 DIO_NOT_SET: the file is not open with O_DIRECT")


def test_codes_agree_with_nvidia_s_binding():
    cufile = pytest.importorskip("cuda.bindings.cufile", exc_type=ImportError)
    known = {int(member): member.name for member in cufile.OpError}
    assert {code: name for code, (name, _, _) in CODES.items() if code in known} == {
        code: known[code] for code in CODES if code in known
    }
    assert Path(cufile.__file__).exists()
