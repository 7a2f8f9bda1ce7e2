"""Placement on made-up two-socket machines; where this process's own memory lies is asked of this kernel."""

import mmap
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.datapaths import get
from pytest_gpuio.machine import online_nodes
from pytest_gpuio.measure.placement import (
    buffer_node,
    buffer_nodes,
    device_nodes,
    memory_nodes,
    ordered_cpus,
    running_among,
    running_on,
    wanted_nodes,
    worker_distance,
)
from pytest_gpuio.measure.prepare import choose_cpus, choose_poller_cpus
from pytest_gpuio.media import BlockDevice

EVERY = tuple(range(16))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("server")
    nodes = root / "sys/devices/system/node"
    for number, cpus in ((0, "0-3,8-11"), (1, "4-7,12-15"), (2, "")):  # node 2 has memory only
        (nodes / f"node{number}").mkdir(parents=True)
        (nodes / f"node{number}/cpulist").write_text(f"{cpus}\n")
    (nodes / "online").write_text("0-2\n")
    return str(root)


def disk(node, name="nvme0n1"):
    return BlockDevice(name, "259:0", numa_node=node)


def test_nodes_of_devices():
    assert device_nodes([disk(1)]) == (1,)
    assert device_nodes([disk(1), disk(0), disk(1)]) == (0, 1)
    assert device_nodes([disk(1), disk(None)]) is None
    assert device_nodes([disk(None)]) is None
    assert device_nodes([]) is None


def test_policies(server):
    assert wanted_nodes("near", [disk(1)], server) == (1,)
    assert wanted_nodes("near", [disk(None)], server) == ()
    assert wanted_nodes("any", [disk(1)], server) == ()
    assert wanted_nodes("0", [disk(1)], server) == (0,)
    with pytest.raises(ConfigError, match=r"^--gpuio-numa=5: this machine has no such NUMA node; it has 0, 1, 2\.$"):
        wanted_nodes("5", [], server)


@pytest.mark.parametrize(
    ("nodes", "jobs", "expected"),
    [
        ((1,), 3, (15, 14, 13)),
        ((0,), 3, (11, 10, 9)),
        ((0,), 9, (11, 10, 9, 8, 3, 2, 1, 0, 15)),  # the node is full: on to the other one
        ((0, 1), 4, (11, 15, 10, 14)),  # a stripe over both sockets
        ((), 2, (15, 14)),
        ((2,), 2, (15, 14)),  # a node without CPUs
    ],
)
def test_workers_go_where_the_device_is(server, nodes, jobs, expected):
    assert choose_cpus(jobs, ordered_cpus(EVERY, nodes, server)) == expected


def test_pollers_too(server):
    available = ordered_cpus(EVERY, (0,), server)
    workers = choose_cpus(2, available)
    assert choose_poller_cpus(get("io_uring_sqpoll"), workers, available) == (9, 8)


def test_a_cpu_set_that_excludes_the_node_is_obeyed_and_told(server):
    available = ordered_cpus((4, 5, 6), (0,), server)
    assert choose_cpus(2, available) == (6, 5)
    placed = worker_distance([disk(0)], (6, 5), server)
    assert placed.distance == "other_node"
    assert placed.evidence == "the device hangs on node 0, and CPUs 5, 6 do not belong to it."


@given(st.sets(st.integers(0, 20), min_size=1), st.lists(st.integers(0, 3), max_size=3))
def test_no_cpu_is_lost_or_invented(available, nodes):
    listed = tuple(sorted(available))
    # Of this machine's nodes; any others have no CPUs.
    assert sorted(ordered_cpus(listed, nodes)) == list(listed)


def test_distances(server):
    assert worker_distance([disk(1)], (4, 15), server).distance == "same_node"
    assert worker_distance([disk(0), disk(1)], (4,), server).distance == "other_node"
    assert worker_distance([disk(None)], (4,), server).distance == "unknown"
    assert worker_distance([disk(1)], (-1, -1), server).distance == "unknown"
    assert worker_distance([], (4,), server).distance == "unknown"


def test_memory_is_placed_only_where_there_is_a_choice(server, tmp_path):
    assert buffer_node((1,), server) == 1
    assert buffer_node((0, 1), server) is None
    assert buffer_node((), server) is None
    assert buffer_node((0,), str(tmp_path)) is None


def test_the_kernels_list_of_pages(tmp_path):
    # As a two-socket machine shows it.
    maps = tmp_path / "numa_maps"
    maps.write_text(
        "7f0000000000 default anon=512 dirty=512 N0=512 kernelpagesize_kB=4\n"
        "7f0000200000 default anon=1024 dirty=1024 active=0 N0=1 N1=1023 kernelpagesize_kB=4\n"
        "7f0000800000 default\n"
        "7fff00000000 default stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n"
    )
    assert memory_nodes(0x7F0000000000, maps) == (0,)
    assert memory_nodes(0x7F0000201000, maps) == (0, 1)
    assert memory_nodes(0x7F0000800000, maps) is None
    assert memory_nodes(0x7FFF00000010, maps) == (1,)
    assert memory_nodes(0x1000, maps) is None
    assert memory_nodes(0x1000, tmp_path / "not there") is None


def test_a_single_node_holds_all_buffers(tmp_path):
    nodes = tmp_path / "sys/devices/system/node"
    nodes.mkdir(parents=True)
    (nodes / "online").write_text("3\n")
    assert buffer_nodes(0x1000, str(tmp_path)) == (3,)


def test_where_nodes_are_unknown_or_several_the_kernel_is_asked(tmp_path, server):
    for root in (str(tmp_path), server):
        assert buffer_nodes(0x1000, root) is None  # no mapping of ours begins that low


def test_this_machines_memory():
    import ctypes

    nodes = online_nodes()
    if not Path("/proc/self/numa_maps").exists() or not nodes:
        pytest.skip("this kernel knows no NUMA")
    before = os.sched_getaffinity(0)
    for node in nodes:
        with running_on(node), mmap.mmap(-1, 4 << 20) as memory:
            memory.write(b"x" * (4 << 20))
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            found = memory_nodes(address)
            assert found is not None
            assert set(found) <= set(nodes)
        assert os.sched_getaffinity(0) == before


def test_a_thread_runs_among_those_of_its_cpus_that_are_named_and_returns():
    allowed = os.sched_getaffinity(0)
    one = min(allowed)
    with running_among([one, 10**6]):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == allowed
    with running_among([10**6]):  # none of them is allowed: it stays where it is
        assert os.sched_getaffinity(0) == allowed
    with pytest.raises(KeyError), running_among([one]):
        raise KeyError
    assert os.sched_getaffinity(0) == allowed
