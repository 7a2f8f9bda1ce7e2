"""What runs leave below a target: found, counted, removed; and what is not ours stays."""

import os

import pytest

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.targets import lay_out, leftovers

engine = pytest.importorskip("pytest_gpuio.engine")
MIB = 1 << 20


@pytest.fixture
def target(tmp_path):
    """A target with a read file, a model of two files, and somebody else's files beside and between them."""
    lay_out(tmp_path / "gpuio-read.dat", MIB)
    folder = tmp_path / "models" / "inference-cold_start"
    leftovers.make_model_folder(folder)
    (folder / "deep").mkdir()
    lay_out(folder / "a.bin", MIB)
    lay_out(folder / "deep" / "b.bin", 2 * MIB)
    (tmp_path / "mine.txt").write_text("mine")
    return tmp_path


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_every_file_with_our_header_is_found_with_its_size(target):
    found = leftovers.find(target)
    assert sorted(one.path.name for one in found) == ["a.bin", "b.bin", "gpuio-read.dat"]
    assert all(one.bytes == one.path.stat().st_blocks * 512 for one in found)
    models = sum(one.bytes for one in found if one.path.name != "gpuio-read.dat")
    assert models <= leftovers.model_bytes(target) < models + MIB


def test_removing_leaves_only_what_was_somebody_elses(target):
    assert leftovers.remove(leftovers.find(target), target) == 3
    assert tree(target) == ["mine.txt"]


@pytest.mark.parametrize("place", ["models/inference-cold_start/theirs", "models/theirs", "models/other/theirs"])
def test_somebody_elses_file_among_ours_stays_with_its_folder(target, place):
    path = target / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * 5000)
    leftovers.remove(leftovers.find(target), target)
    assert path.read_bytes() == b"x" * 5000
    assert not (target / "models" / "inference-cold_start" / "a.bin").exists()


def test_links_are_neither_followed_nor_removed(target, tmp_path_factory):
    away = tmp_path_factory.mktemp("away")
    lay_out(away / "far.bin", MIB)
    (target / "models" / "linked").symlink_to(away)
    (target / "models" / "inference-cold_start" / "link.bin").symlink_to(away / "far.bin")
    leftovers.remove(leftovers.find(target), target)
    assert (away / "far.bin").exists()
    assert (target / "models" / "linked").is_symlink()


def test_what_took_a_files_place_meanwhile_stays(target):
    found = leftovers.find(target)
    (target / "gpuio-read.dat").unlink()
    (target / "gpuio-read.dat").write_text("new")
    assert leftovers.remove(found, target) == 2
    assert (target / "gpuio-read.dat").read_text() == "new"


def test_a_damaged_header_proves_nothing(target):
    path = target / "models" / "inference-cold_start" / "a.bin"
    with path.open("r+b") as file:
        file.seek(60)
        file.write(b"!!!!")
    leftovers.remove(leftovers.find(target), target)
    assert path.exists()


def test_a_file_as_target_and_a_target_that_is_not_there(tmp_path):
    lay_out(tmp_path / "own.dat", MIB)
    (tmp_path / "other.dat").write_text("x")
    assert [one.path.name for one in leftovers.find(tmp_path / "own.dat")] == ["own.dat"]
    assert leftovers.find(tmp_path / "other.dat") == ()
    with pytest.raises(TargetError, match="cannot be looked at"):
        leftovers.find(tmp_path / "nowhere")


def test_a_folder_of_our_own_goes_with_all_that_is_in_it(tmp_path):
    folder = tmp_path / "models" / "pretrain-checkpoint_ranks"
    with leftovers.own_folder(folder, "torch_save") as own:
        (own / "sub").mkdir()
        (own / "sub" / "a.pt").write_bytes(b"x")
        assert own.parent == folder
        assert own.stat().st_mode & 0o077 == 0
    assert tree(tmp_path) == ["models", "models/CACHEDIR.TAG", "models/pretrain-checkpoint_ranks"]


def test_a_folder_of_a_run_that_was_killed_is_found(tmp_path):
    folder = tmp_path / "models" / "pretrain-checkpoint_ranks"
    own = leftovers.own_folder(folder, "torch_save")
    made = own.__enter__()
    (made / "sub").mkdir()
    (made / "sub" / "a.pt").write_bytes(b"x" * 10_000)
    found = leftovers.find(tmp_path)
    assert {one.path.name for one in found} == {"a.pt", ".gpuio-own-folder"}
    assert leftovers.remove(found, tmp_path) == 2
    assert tree(tmp_path) == []


def test_the_folder_of_models_tells_backup_programs_to_pass_over_it(target):
    # The signature that https://bford.info/cachedir/ asks for.
    assert (target / "models" / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")


def test_a_folder_of_models_that_was_there_before_is_never_tagged_or_removed(tmp_path):
    (tmp_path / "models").mkdir()
    leftovers.make_model_folder(tmp_path / "models" / "x")
    lay_out(tmp_path / "models" / "x" / "a.bin", MIB)
    leftovers.remove(leftovers.find(tmp_path), tmp_path)
    assert tree(tmp_path) == ["models"]


def test_the_default_folder_hides_itself_from_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leftovers.make_model_folder(tmp_path / ".gpuio" / "models" / "x")
    assert (tmp_path / ".gpuio" / ".gitignore").read_text() == "*\n"


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "models").write_text("a file")
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(TargetError, match="cannot be made a directory"):
        leftovers.make_model_folder(tmp_path / "models" / "x")
