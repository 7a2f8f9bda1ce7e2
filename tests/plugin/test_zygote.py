"""What starts the plugin tests' runs: each is a process of its own, told apart from the one before it, and bounded."""

import os
import time

import pytest

QUIET = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]


def test_each_run_is_a_process_with_its_own_folder_environment_and_modules(zygote, pytester, monkeypatch):
    pids = set()
    for word in ("one", "two"):
        monkeypatch.setenv("GPUIO_TEST_WORD", word)
        pytester.makepyfile(
            test_suite=f"""
            import os, sys, pathlib
            def test_it():
                assert os.environ["GPUIO_TEST_WORD"] == {word!r}
                assert not hasattr(sys, "left_behind")
                sys.left_behind = True
                pathlib.Path("pid").write_text(str(os.getpid()))
            """
        )
        zygote.run(QUIET, 60).assert_outcomes(passed=1)
        pids.add((pytester.path / "pid").read_text())
    assert len(pids) == 2
    assert str(os.getpid()) not in pids


def test_a_late_run_is_killed_and_the_next_one_is_not(zygote, pytester):
    pytester.makepyfile(test_suite="import time\ndef test_it():\n    time.sleep(600)\n")
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="was killed after 1 s"):
        zygote.run(QUIET, 1)
    assert time.monotonic() - begun < 60
    pytester.makepyfile(test_suite="def test_it():\n    pass\n")
    assert zygote.run(QUIET, 60).ret == 0


def test_a_run_that_kills_itself_is_not_late(zygote, pytester):
    pytester.makepyfile(test_suite="import os\ndef test_it():\n    os.kill(os.getpid(), 9)\n")
    assert zygote.run(QUIET, 60).ret == -9
