import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_gpuio.cli import init, main
from pytest_gpuio.core.errors import ConfigError, GpuioError

SUITE = "def test_one(gpuio):\n    gpuio.run()\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder with suites inside, as a wheel lays it out, in the place of the real one."""
    package = tmp_path / "site" / "pytest_gpuio"
    (package / "bench_suites" / "deeper" / "__pycache__").mkdir(parents=True)
    suites = package / "bench_suites"
    (suites / "__init__.py").write_text("")
    (suites / "test_b.py").write_text(SUITE)
    (suites / "test_a.py").write_text(SUITE)
    (suites / "deeper" / "test_c.py").write_text(SUITE)
    (suites / "deeper" / "__pycache__" / "x.py").write_text("")
    (suites / "notes.txt").write_text("")
    monkeypatch.setattr(init, "files", lambda _: package)
    return package


def test_a_new_folder_holds_suites_conftest_and_readme(tmp_path, package, capsys):
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    names = ["deeper/test_c.py", "test_a.py", "test_b.py", "conftest.py", "README.md"]
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == sorted(names)
    assert (folder / "test_a.py").read_text() == SUITE
    out = capsys.readouterr().out
    assert out.splitlines()[:5] == [f"{folder}/{name}" for name in names]
    assert f"Now: pytest {folder} --gpuio-target" in out


def test_the_conftest_also_leaves_out_what_the_packaged_one_does(tmp_path, package):
    (package / "bench_suites" / "conftest.py").write_text('"""Says it."""\n\n# Why.\ncollect_ignore = ["deeper"]\n')
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    values = {}
    text = (folder / "conftest.py").read_text()
    exec(compile(text, "conftest.py", "exec"), values)
    assert values["collect_ignore"] == ["deeper"]
    assert "pytest_benchmark_group_stats" in values
    assert "Says it" not in text


def test_the_packaged_suites_are_copied_with_their_folders_and_only_the_default_ones_found(tmp_path):
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    assert (folder / "inference" / "test_kv_cache.py").exists()
    assert (folder / "mlperf" / "test_mlperf_training.py").exists()

    def collected(*names):
        command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "--gpuio-datapath=psync", *names]
        out = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120).stdout
        return {line.partition("::")[0] for line in out.splitlines() if "::" in line}

    found = collected()
    assert "inference/test_inference.py" in found
    assert not [name for name in found if name.startswith(("mlperf", "traces"))]
    assert collected("mlperf/test_mlperf_vector.py", "inference/test_mixes.py") == {
        "mlperf/test_mlperf_vector.py", "inference/test_mixes.py",
    }  # fmt: skip


def test_an_existing_folder_may_hold_other_things(tmp_path, package):
    (tmp_path / "other.txt").write_text("mine")
    assert main(["init", str(tmp_path)]) == 0
    assert (tmp_path / "other.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["test_b.py", "README.md", "conftest.py", "deeper/test_c.py"])
def test_nothing_is_overwritten_nor_half_done(tmp_path, package, capsys, name):
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("precious")
    before = sorted(folder.rglob("*"))
    assert main(["init", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"gpuio: {folder}/{name} exists already, and nothing is overwritten: name another folder.\n"
    )
    assert sorted(folder.rglob("*")) == before
    assert (folder / name).read_text() == "precious"


def test_a_dangling_link_counts_as_existing(tmp_path, package):
    (tmp_path / "conftest.py").symlink_to(tmp_path / "elsewhere")
    assert main(["init", str(tmp_path)]) == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_is_named(tmp_path, package, capsys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "no" / "parent"):
        assert main(["init", str(folder)]) == 2
        assert f"{folder} cannot be made" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_a_failure_half_way_takes_back_what_was_written(tmp_path):
    folder = tmp_path / "mine"
    with pytest.raises(GpuioError, match="cannot be written: File name too long"):
        init.write_new(folder, {"a.py": "", "deeper/b.py": "", "x" * 300: ""})
    assert not folder.exists()
    folder.mkdir()
    (folder / "deeper").write_text("a file where a folder is wanted")
    with pytest.raises(GpuioError, match="deeper cannot be written: File exists"):
        init.write_new(folder, {"a.py": "", "deeper/b.py": ""})
    assert [path.name for path in folder.iterdir()] == ["deeper"]


def test_a_checkout_has_its_suites_beside_the_package(tmp_path):
    (tmp_path / "bench_suites").mkdir()
    (tmp_path / "bench_suites" / "test_a.py").write_text(SUITE)
    package = tmp_path / "pytest_gpuio"
    package.mkdir()
    assert init.suites(package) == {"test_a.py": SUITE}


def test_suites_are_read_out_of_a_zip(tmp_path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("pytest_gpuio/bench_suites/test_a.py", SUITE)
    assert init.suites(zipfile.Path(archive, "pytest_gpuio/")) == {"test_a.py": SUITE}


def test_no_suites_at_all_is_named(tmp_path):
    (tmp_path / "pytest_gpuio").mkdir()
    with pytest.raises(GpuioError, match="holds no suites"):
        init.suites(tmp_path / "pytest_gpuio")
    with pytest.raises(ConfigError):
        init.write_new(tmp_path / "pytest_gpuio" / "a" / "b", {"x": ""})


def test_the_conftest_gives_pytest_benchmark_both_hooks(tmp_path, package):
    folder = tmp_path / "mine"
    main(["init", str(folder)])
    code = (folder / "conftest.py").read_text()
    names = {target.id for node in ast.parse(code).body if isinstance(node, ast.Assign) for target in node.targets}
    assert names == {"pytest_benchmark_group_stats", "pytest_benchmark_scale_unit"}
    top = Path(__file__).parents[3] / "conftest.py"
    assert code == top.read_text()


@pytest.mark.parametrize("options", [[], ["-p", "no:benchmark"]])
def test_pytest_takes_the_conftest(tmp_path, options):
    (tmp_path / "conftest.py").write_text(init._CONFTEST)
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n")
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:gpuio",
            *options,
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_real_suites_are_found():
    found = init.suites()
    assert found
    assert "collect_ignore" in found.pop("conftest.py")
    assert all(Path(name).name.startswith("test_") and "def test_" in text for name, text in found.items())
    assert "__init__.py" not in found
