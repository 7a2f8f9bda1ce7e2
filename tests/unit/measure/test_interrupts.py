from pytest_gpuio.measure import interrupts
from pytest_gpuio.measure.host import HostTimes

BEFORE = """           CPU0       CPU2
 35:          1         10  PCI-MSIX-0000:00:02.0   0-edge      virtio1-config
 36:          0       5982  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 40:          3          4  PCI-MSIX-0000:00:09.0   1-edge      nvme0q1
NMI:          0          0   Non-maskable interrupts
ERR:          0
"""
AFTER = BEFORE.replace("5982", "6000")


def _tree(root, text):
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/interrupts").write_text(text)
    return str(root)


def test_the_cpu_that_served_the_device_is_found_by_its_number_not_its_column(tmp_path):
    before = interrupts.read(("virtio1-",), _tree(tmp_path, BEFORE))
    after = interrupts.read(("virtio1-",), _tree(tmp_path, AFTER))
    assert before == {"35:": (1, 10), "36:": (0, 5982)}
    assert interrupts.serving_cpus(before, after, str(tmp_path)) == (2,)


def test_no_interrupt_is_an_answer_and_not_unknown(tmp_path):
    before = interrupts.read(("nvme0q",), _tree(tmp_path, BEFORE))
    assert interrupts.serving_cpus(before, before, str(tmp_path)) == ()


def test_unknown_when_no_line_is_the_devices(tmp_path):
    root = _tree(tmp_path, BEFORE)
    assert interrupts.read(("nvme7q",), root) is None
    assert interrupts.read((), root) is None
    assert interrupts.serving_cpus(None, None, root) is None


def test_unknown_without_the_file(tmp_path):
    assert interrupts.read(("virtio1-",), str(tmp_path)) is None


HOST = HostTimes(0, 0.0, 0.0, {0: (1.0, 2.0), 2: (3.0, 4.0)})
LATER = HostTimes(1, 0.0, 0.0, {0: (1.5, 2.25), 2: (3.0, 5.0)})


def test_interrupt_time_counts_only_where_no_task_has_it():
    hard, soft, reason = interrupts.seconds_outside_tasks(HOST, LATER, accounted=False, serving=(0,))
    assert (hard, soft) == (None, None)
    assert "already inside task time" in reason
    hard, soft, reason = interrupts.seconds_outside_tasks(HOST, LATER, accounted=None, serving=(0,))
    assert (hard, soft) == (None, None)
    assert reason.startswith("unknown")
    assert interrupts.seconds_outside_tasks(None, LATER, accounted=True, serving=(0,))[:2] == (None, None)


def test_interrupt_time_is_that_of_the_cpus_that_served_the_target():
    assert interrupts.seconds_outside_tasks(HOST, LATER, accounted=True, serving=(0,)) == (
        0.5,
        0.25,
        "of CPUs 0, which served the target",
    )
    for unknown in (None, ()):
        assert interrupts.seconds_outside_tasks(HOST, LATER, accounted=True, serving=unknown) == (
            0.5,
            1.25,
            "of all CPUs",
        )
