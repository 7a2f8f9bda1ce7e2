"""One child per family, replaced when it is dead or no longer trusted."""

import os
import signal

import pytest

from pytest_gpuio import isolation
from pytest_gpuio.core.errors import ChildDied
from pytest_gpuio.isolation.pool import Children

LONG = 30.0


@pytest.fixture
def children(child_env):
    with Children("gpuio_test_child", env=child_env, grace_s=0.3) as pool:
        yield pool


def test_the_room_offers_its_names_lazily():
    assert isolation.Children is Children
    assert isolation.__all__ == ["Child", "Children", "HostLock"]
    assert all(getattr(isolation, name).__name__ == name for name in isolation.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Parents'"):
        _ = isolation.Parents


def test_a_family_keeps_its_child(children):
    ring, sync = children.get("io_uring"), children.get("psync")
    assert ring.pid != sync.pid
    assert ring.name == "io_uring"
    assert children.get("io_uring") is ring
    assert children.get("psync") is sync


def test_living_children_are_known_by_id(children, gone):
    assert children.pids == ()
    first = children.get("io_uring")
    assert children.pids == (first.pid,)
    with pytest.raises(ChildDied):
        first.request("segfault", deadline_s=LONG)
    assert children.pids == ()


def test_a_dead_child_is_replaced(children, gone):
    first = children.get("io_uring")
    with pytest.raises(ChildDied):
        first.request("segfault", deadline_s=LONG)
    second = children.get("io_uring")
    assert second is not first
    assert second.request("echo", {"n": 1}, deadline_s=LONG) == {"n": 1}


def test_death_while_idle_is_seen(children, gone):
    first = children.get("io_uring")
    first.request("echo", deadline_s=LONG)
    os.kill(first.pid, signal.SIGKILL)
    assert gone(first.pid)
    assert children.get("io_uring").request("echo", {"n": 2}, deadline_s=LONG) == {"n": 2}
    assert first.usage is not None


def test_a_void_cell_gets_a_new_child(children, gone):
    first = children.get("io_uring")
    second = children.replace("io_uring")
    assert gone(first.pid)
    assert children.get("io_uring") is second
    assert second.request("echo", {"n": 3}, deadline_s=LONG) == {"n": 3}


def test_stop_reaches_every_child(children):
    child = children.get("io_uring")
    got = child.request("hang", deadline_s=LONG, on_event=lambda *_: children.stop())
    assert got == "stopped"


def test_close_all_leaves_nobody(children, gone):
    pids = [children.get(family).pid for family in ("a", "b")]
    children.close_all()
    assert all(gone(pid) for pid in pids)
