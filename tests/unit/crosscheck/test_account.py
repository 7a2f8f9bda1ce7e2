"""Which runs the CPU audit believes; the runs themselves are fakes, real ones are in the suite of overhead."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from pytest_gpuio.crosscheck import account


def control(*, steal_s=0.0, share=0.01, trusted=True, no_task_s=0.1):
    return SimpleNamespace(
        outcome={
            "cpu": {
                "steal_s": steal_s,
                "control": {
                    "trusted": trusted, "reason": None if trusted else "a container", "seconds": 5.0, "truth_s": 2.0,
                    "parts_s": 1.5, "elsewhere_s": 0.4, "elsewhere": {"kworker loop0": 0.4}, "no_task_s": no_task_s,
                    "unattributed_s": share * 2.0, "unattributed_share": share,
                },
            }
        }
    )  # fmt: skip


@pytest.fixture
def audit(monkeypatch):
    """A function that runs an audit over fake runs, and gives its row and how many it took."""
    monkeypatch.setattr(account, "for_seconds", lambda plan, _: plan)
    monkeypatch.setattr(account, "_by_fio", lambda *_: "fio said nothing")

    @contextmanager
    def place(name):
        yield name

    def run(*runs, quick=False):
        left = iter(runs)
        taken = []

        def measure(_):
            taken.append(next(left))
            return taken[-1]

        lab = SimpleNamespace(
            settings=SimpleNamespace(quick=quick), place=place, plan=lambda *_, **__: None, say=lambda _: None,
            ours=SimpleNamespace(measure=measure),
        )  # fmt: skip
        (row,) = account._run(account._AUDITS[2], lab)
        return row, len(taken)

    return run


def test_three_undisturbed_fake_runs_are_enough(audit):
    row, taken = audit(control(share=0.01), control(share=-0.04), control(share=0.02))
    assert (row.verdict, taken) == ("reached", 3)
    assert (row.figure, row.low, row.high) == (pytest.approx(2.0), pytest.approx(1.0), pytest.approx(4.0))
    assert "in no task 0.020" in row.reason
    assert audit(*[control(share=0.035)] * 3)[0].verdict == "missed"


def test_fake_runs_that_the_hypervisor_took_time_from_are_left_out(audit):
    stolen = control(steal_s=0.021, share=-0.5)  # more than 1 % of 2 s
    row, taken = audit(stolen, control(), stolen, control(steal_s=0.019), control())
    assert (row.verdict, taken) == ("reached", 5)
    row, taken = audit(*[stolen] * 9)
    assert (row.verdict, row.figure, taken) == ("not decided", None, 9)
    assert "0 of 9 runs" in row.reason


def test_without_trust_there_is_no_verdict(audit):
    row, taken = audit(control(trusted=False))
    assert (row.verdict, row.reason, taken) == ("not measurable here", "a container", 1)


def test_a_quick_fake_run_is_one(audit):
    assert audit(control(no_task_s=None), quick=True)[1] == 1


def test_a_kernel_without_a_sum_of_its_tasks_is_told(audit):
    row, _ = audit(*[control(no_task_s=None)] * 3)
    assert "this kernel keeps no sum of its tasks' time" in row.reason
