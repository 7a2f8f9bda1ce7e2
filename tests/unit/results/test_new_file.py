"""Files that appear whole and replace nothing."""

import pytest

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results.new_file import check_new, write_lines


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_lines_and_bytes_are_counted(tmp_path):
    path = tmp_path / "new"
    assert write_lines(path, (f"line {index}" for index in range(25_000))) == (25_000, path.stat().st_size)
    assert path.read_text().splitlines()[-1] == "line 24999"
    assert names(tmp_path) == ["new"]


def test_an_error_midway_leaves_nothing(tmp_path):
    def lines():
        yield from ("good",) * 20_000
        raise ConfigError("bad line")

    with pytest.raises(ConfigError, match="bad line"):
        write_lines(tmp_path / "new", lines())
    assert names(tmp_path) == []


def test_what_came_in_the_meantime_stays(tmp_path):
    path = tmp_path / "new"

    def lines():
        path.write_text("theirs")
        yield "ours"

    with pytest.raises(ConfigError, match="new exists"):
        write_lines(path, lines())
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["new"]


def test_names_that_are_taken_or_cannot_be(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for taken in ("dangling", "."):
        with pytest.raises(ConfigError, match="exists: name another path"):
            check_new(tmp_path / taken)
    with pytest.raises(GpuioError, match="cannot be written: No such file or directory"):
        write_lines(tmp_path / "no" / "new", ["x"])
