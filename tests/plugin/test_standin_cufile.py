"""cuFile through pytest, with stand-ins for libcufile and the CUDA driver: no machine here has direct storage."""

from pathlib import Path

import pytest

SUITE = """
import pytest


@pytest.mark.workload("micro/randread")
def test_one(gpuio):
    gpuio.run()
"""


@pytest.fixture
def play(gpuio_run, libcuda, libcufile, monkeypatch):
    """Function: runs data paths with a stand-in that plays a route."""

    def run(paths, route, *options, version="1150", fault=None):
        monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
        monkeypatch.setenv("GPUIO_CUFILE", libcufile)
        monkeypatch.setenv("STANDIN_CUFILE", route)
        monkeypatch.setenv("STANDIN_VERSION", version)
        if fault is not None:
            monkeypatch.setenv("STANDIN_FAULT", fault)
        return gpuio_run(f"--gpuio-datapath={paths}", "--gpuio-bs=64k", "--gpuio-qd=1,4", "-rs", *options, suite=SUITE)

    return run


@pytest.mark.parametrize("version", ["1150", "1210"])
def test_stand_in_of_peer_to_peer_dma_proves_gds(play, results, version):
    play("gds,gds_batch,gds_stream", "p2p", version=version).assert_outcomes(passed=5)
    cells = results()["cells"]
    assert {cell["effective"]["datapath"] for cell in cells} == {"gds", "gds_batch", "gds_stream"}
    for cell in cells:
        assert cell["effective"]["route"] == "direct_p2pdma"
        assert "falling back was forbidden" in cell["effective"]["evidence"]
        assert cell["axes"]["destination"] == "gpu"
        assert (cell["cufile"]["mode"], cell["cufile"]["may_fall_back"]) == ("strict", False)
        assert cell["verify"]["checked"] > 0
        counters = cell["cufile"]["counters"]
        assert counters["p2p"] + counters["batch_p2p"] == counters["total"] + counters["batch_total"] >= cell["ios"]
        assert cell["requested"]["knobs"] == cell["effective"]["knobs"] == ["fixed_buffers"]


def test_stand_in_of_nvidia_fs_is_not_believed_where_the_module_is_not_loaded(play, results):
    if Path("/proc/driver/nvidia-fs").exists():
        pytest.skip("this machine has nvidia-fs")
    play("gds", "nvfs").assert_outcomes(failed=1)
    (void,) = results()["voids"]
    assert void["gate"] == "path_proved"
    assert "nvidia-fs is not loaded, so it cannot have moved them" in void["reason"]


@pytest.mark.parametrize("route", ["mixed", "none"])
def test_stand_in_that_falls_back_or_does_not_count_is_void(play, results, route):
    play("gds", route).assert_outcomes(failed=1)
    (void,) = results()["voids"]
    assert (void["gate"], void["axes"]["datapath"]) == ("path_proved", "gds")


def test_stand_in_in_compatibility_mode_is_its_own_path_and_gds_a_skip(play, results):
    done = play("gds,gds_compat,gds_compat_batch", "compat")
    done.assert_outcomes(passed=3, skipped=1)
    done.stdout.fnmatch_lines(["*needs gds: cuFileDriverOpen was refused*5001*modprobe nvidia-fs*"])
    for cell in results()["cells"]:
        assert cell["effective"]["route"] == "compat"
        assert cell["effective"]["datapath"].startswith("gds_compat")
        assert cell["cufile"]["may_fall_back"] is True


def test_stand_in_that_went_direct_is_no_gds_compat(play, results):
    play("gds_compat", "p2p").assert_outcomes(failed=1)
    (void,) = results()["voids"]
    assert "asked for gds_compat, got something else" in void["reason"]


def test_stand_in_that_refuses_the_target_is_a_skip_with_the_remedy(play):
    done = play("gds_compat", "compat", fault="register:5027")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*needs cufile_target: cuFileHandleRegister refused the file*run udevd*"])


def test_stand_in_with_wrong_data_in_gpu_memory_is_void(play, results):
    play("gds_compat", "compat", fault="wrong").assert_outcomes(failed=1)
    assert results()["voids"][0]["gate"] == "data_verified"


def test_stand_in_s_codes_are_told_in_words(play, results):
    play("gds_compat", "compat", fault="read:5036").assert_outcomes(failed=1)
    (void,) = results()["voids"]
    assert void["gate"] == "no_errors"
    assert "cuFile 5036 GPU_MEMORY_PINNING_FAILED: no more GPU memory can be pinned: BAR1 is full" in void["reason"]


def test_stand_in_that_crashes_while_it_ends_is_named_and_the_results_stand(play, results):
    done = play("gds_compat,psync", "compat", fault="crash_at_close")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*note: measuring child 'gds_compat'*was killed by SIGSEGV*when it was asked to end*"])
    assert len(results()["cells"]) == 2


def test_stand_in_that_crashes_at_exit_does_not_get_to_it(play):
    done = play("gds_compat", "compat", fault="crash_at_exit")
    done.assert_outcomes(passed=1)
    assert "SIGSEGV" not in done.stdout.str()


def test_stand_in_whose_driver_never_opens_costs_that_path_only(play, pytester):
    pytester.makeconftest("""
from pytest_gpuio.capabilities import CAPABILITIES

# Frozen, as the driver here stays for ever: half a minute less of waiting for it.
object.__setattr__(CAPABILITIES["cufile"], "deadline_s", 2.0)
""")
    done = play("gds_compat,psync", "compat", fault="hang")
    done.assert_outcomes(passed=1, skipped=1)
    done.stdout.fnmatch_lines(["*needs cufile: the probe of cufile did not survive*was not done within*"])
