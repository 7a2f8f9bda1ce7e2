"""``gpuio model``: what it prints, and its JSON."""

import json

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.phases import models


def test_info_says_the_published_numbers(capsys):
    assert main(["model", "info", "llama-3.1-8b"]) == 0
    out = capsys.readouterr().out
    for words in ("8,030,261,248", "16,060,522,496 bytes (14.96 GiB) in 291 tensors", "131,072 bytes (128 KiB)"):
        assert words in out
    assert "page512           67,108,864 bytes (64 MiB) (512 tokens)" in out
    assert "active per token" not in out


def test_info_of_experts_and_windows(capsys):
    assert main(["model", "info", "gpt-oss-20b", "--tp", "8"]) == 0
    out = capsys.readouterr().out
    assert "active per token" in out
    assert "sliding window" in out
    assert "fp16, on each of 8 ranks" in out


def test_json_is_the_same(capsys):
    assert (
        main(["model", "info", "--json", "llama-3.1-70b", "--tp", "8", "--kv-dtype", "fp8", "--shard-size", "10GB"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["weights"]["bytes"] == 141_107_412_992
    assert found["kv_cache"]["token_bytes"] == 327_680 // 16
    assert found["files"]["largest"] <= 10_000_000_000 + 100_000
    assert sum(size * count for size, count in found["weights"]["sizes"]) == 141_107_412_992


def test_list_shows_every_model(capsys):
    assert main(["model", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["model", *models.packaged()]
    assert main(["model", "list", "--json"]) == 0
    assert [model["name"] for model in json.loads(capsys.readouterr().out)] == list(models.packaged())


def test_a_models_file_of_ones_own(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        '[models."my-7b"]\nfamily = "llama"\nsource = "x"\nlayers = 32\nhidden = 4096\nffn = 14336\nheads = 32\n'
        "kv_heads = 8\nvocab = 128256\n"
    )
    assert main(["model", "list", str(file)]) == 0
    assert "my-7b" in capsys.readouterr().out
    assert main(["model", "info", f"{file}:my-7b"]) == 0
    assert "16,060,522,496" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["info"], "which model?"),
        (["info", "nonesuch-9b"], "is unknown"),
        (["info", "llama-3.1-8b", "--tp", "3"], "cannot be spread over 3 ranks"),
        (["info", "llama-3.1-8b", "--lora-rank", "0"], "LoRA rank 0"),
        (["info", "llama-3.1-8b", "--shard-size", "big"], "is not a size"),
        (["list", "/nonexistent.toml"], "cannot be read"),
    ],
)
def test_refusals(capsys, argv, words):
    assert main(["model", *argv]) == 2
    assert words in capsys.readouterr().err


def test_help_shows_how_to_add_a_model(capsys):
    assert main(["model", "--help"]) == 0
    out = capsys.readouterr().out
    assert '[models."my-7b"]' in out
    assert "    gpuio model info " in out
