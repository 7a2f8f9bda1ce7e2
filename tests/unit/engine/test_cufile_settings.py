import json
import os
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.engine import cufile_settings
from pytest_gpuio.engine.cufile_settings import parse, publish, settings

#: In the style of NVIDIA's own file, comments and a stray comma included.
NVIDIA = """
// settings
{
    "logging": { "dir": "/var/log // not a comment", "level": "DEBUG" },
    /* block
       comment */
    "properties": {
            // max IO chunk size
            "max_direct_io_size_kb" : 16384,
            "allow_compat_mode": true,
            "force_compat_mode": true,
            "rdma_dev_addr_list": [ "192.168.0.19", ],
    },
}
"""


def test_comments_and_stray_commas_are_taken_as_the_library_does():
    values = parse(NVIDIA)
    assert values["logging"]["dir"] == "/var/log // not a comment"
    assert values["properties"]["rdma_dev_addr_list"] == ["192.168.0.19"]


def test_the_user_s_settings_are_kept_and_the_proof_s_are_ours(tmp_path):
    file = tmp_path / "cufile.json"
    file.write_text(NVIDIA)
    strict = settings(allow_compat=False, environment={"CUFILE_ENV_PATH_JSON": str(file)})
    values = json.loads(strict.text)
    assert values["properties"] == {
        "allow_compat_mode": False,
        "max_direct_io_size_kb": 16384,
        "rdma_dev_addr_list": ["192.168.0.19"],
    }
    assert values["profile"]["cufile_stats"] == 3
    assert values["logging"]["level"] == "ERROR"
    assert strict.source == str(file)
    lenient = settings(allow_compat=True, environment={"CUFILE_ENV_PATH_JSON": str(file)})
    assert json.loads(lenient.text)["properties"]["force_compat_mode"] is True
    assert strict.sha256 != lenient.sha256
    again = settings(allow_compat=False, environment={"CUFILE_ENV_PATH_JSON": str(file)})
    assert again.sha256 == strict.sha256


def test_the_system_s_file_is_the_default_and_none_is_needed(tmp_path):
    assert settings(allow_compat=True, environment={}, root=str(tmp_path)).source is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/cufile.json").write_text('{"properties": {"use_poll_mode": true}}')
    found = settings(allow_compat=True, environment={}, root=str(tmp_path))
    assert json.loads(found.text)["properties"] == {"allow_compat_mode": True, "use_poll_mode": True}
    assert found.source == str(tmp_path / "etc/cufile.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is no JSON"), ("[1]", "holds no JSON object but list"), ('{"properties": 3}', "properties of cufile.json")],
)
def test_a_broken_file_is_named(tmp_path, text, words):
    file = tmp_path / "cufile.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        settings(allow_compat=True, environment={"CUFILE_ENV_PATH_JSON": str(file)})


def test_a_named_file_must_be_there_and_readable(tmp_path):
    with pytest.raises(ConfigError, match="which is not there"):
        settings(allow_compat=True, environment={"CUFILE_ENV_PATH_JSON": str(tmp_path / "no.json")})
    with pytest.raises(ConfigError, match="cannot be read"):
        settings(allow_compat=True, environment={"CUFILE_ENV_PATH_JSON": str(tmp_path)})


def test_published_settings_are_in_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("CUFILE_ENV_PATH_JSON", "")
    wanted = settings(allow_compat=False, environment={}, root=str(tmp_path))
    publish(wanted)
    path = os.environ[cufile_settings.VARIABLE]
    assert path.startswith("/proc/self/fd/")
    assert Path(path).read_text() == wanted.text
    os.close(int(Path(path).name))
