"""Status codes of 3FS in words."""

import pytest

from pytest_gpuio.core.errors import errno_text
from pytest_gpuio.core.hf3fs_codes import hf3fs_text, is_3fs_code


@pytest.mark.parametrize("code", [308001, -308001])
def test_of_either_sign_with_the_remedy(code):
    assert is_3fs_code(code)
    assert errno_text(code) == hf3fs_text(code)
    assert hf3fs_text(code).startswith(
        "3FS status 8001 (client and FUSE daemon): a hole lies inside the range: let gpuio"
    )


def test_a_code_without_words_of_its_own_names_its_service():
    assert hf3fs_text(304010).startswith(
        "3FS status 4010 (storage): the request failed: see the log of hf3fs_fuse_main"
    )
    assert "unknown service" in hf3fs_text(399999)


@pytest.mark.parametrize("code", [0, 5, 5001, 300000, 400000])
def test_errnos_and_codes_of_others_are_none(code):
    assert not is_3fs_code(code)
