import os
import time

import pytest

from pytest_gpuio.measure import host

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
STAT = """cpu  100 0 50 8000 200 3 4 70 0 0
cpu0 50 0 25 4000 100 1 2 30 0 0
cpu2 50 0 25 4000 100 2 2 40 0 0
intr 12345 0 0
ctxt 999
"""


def tree(root, text):
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(text)
    return str(root)


def test_the_columns_of_proc_stat_are_read_by_their_meaning(tmp_path):
    times = host.read_times(tree(tmp_path, STAT))
    assert times.idle_s == pytest.approx(8200 * TICK)
    assert times.steal_s == pytest.approx(70 * TICK)
    assert times.interrupts == {0: (1 * TICK, 2 * TICK), 2: (2 * TICK, 2 * TICK)}
    assert times.ticks == {0: (4208, 30), 2: (4219, 40)}


def test_guest_time_is_counted_once(tmp_path):
    text = STAT.replace(" 30 0 0", " 30 17 5")
    assert host.read_times(tree(tmp_path, text)).ticks[0] == (4208, 30)


def test_steal_is_the_share_of_the_chosen_cpus(tmp_path):
    before = host.read_times(tree(tmp_path, STAT))
    after = host.read_times(tree(tmp_path, STAT.replace("50 0 25 4000 100 2 2 40", "130 0 25 4000 100 2 2 60")))
    assert host.steal(before, after, (2,)) == {"steal_share": 0.2, "steal_ticks": 20}
    assert host.steal(before, after, ()) == {"steal_share": 0.2, "steal_ticks": 20}
    assert host.steal(before, after, (0,)) == {"steal_share": None, "steal_ticks": 0}
    assert host.steal(before, before, ()) == {"steal_share": None, "steal_ticks": 0}
    assert host.steal(None, after, ()) == {"steal_share": None, "steal_ticks": 0}


@pytest.mark.parametrize("text", ["", "intr 5\n", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 8\n", STAT.replace("8000", "x")])
def test_what_is_no_proc_stat_is_unknown(tmp_path, text):
    assert host.read_times(tree(tmp_path, text)) is None


def test_no_proc_stat_is_unknown(tmp_path):
    assert host.read_times(str(tmp_path)) is None


def test_truth_is_what_was_not_idle_nor_stolen():
    cpus = {0: (0.0, 0.0), 1: (0.0, 0.0)}
    before = host.HostTimes(0, idle_s=100.0, steal_s=5.0, interrupts=cpus)
    after = host.HostTimes(10 * 10**9, idle_s=107.0, steal_s=5.5, interrupts=cpus)
    assert host.truth(before, after) == pytest.approx(2 * 10 - 7.0 - 0.5)
    assert host.stolen(before, after) == pytest.approx(0.5)


def test_the_host_spends_at_least_what_this_thread_spends():
    before, mine = host.read_times(), time.thread_time()
    while time.thread_time() < mine + 0.5:
        pass
    after = host.read_times()
    # Steps of 10 ms for idle and iowait each, at both ends.
    assert host.truth(before, after) > 0.45


def test_the_idle_host_uses_no_more_than_it_has():
    assert 0.0 <= host.idle_cores(0.1) <= os.cpu_count() + 0.5


def test_the_kernels_threads_tell_whether_everything_is_visible(tmp_path):
    assert not host.every_task_is_visible(str(tmp_path))
    (tmp_path / "proc/2").mkdir(parents=True)
    (tmp_path / "proc/2/comm").write_text("bash\n")
    assert not host.every_task_is_visible(str(tmp_path))
    (tmp_path / "proc/2/comm").write_text("kthreadd\n")
    assert host.every_task_is_visible(str(tmp_path))
