"""What is measured in the lab: reads and writes in one window, both verified; and reads alone."""

import json
from pathlib import Path

import pytest
from measuring import interrupts


def measured(gpuio):
    """Runs the cell, and notes the interrupts that the NVMe drives raised meanwhile, as the kernel counts them."""
    before = interrupts("nvme")
    record = gpuio.run()
    cell = gpuio.cell
    note = {"target": cell.target, "datapath": cell.datapath, "workload": cell.workload, "ios": record["ios"]}
    with Path("/lab/interrupts.jsonl").open("a") as file:
        file.write(json.dumps(note | {"interrupts": interrupts("nvme") - before}) + "\n")


@pytest.mark.workload("micro/randrw70")
def test_cell(gpuio):
    measured(gpuio)


@pytest.mark.workload("micro/seqread")
def test_every_block(gpuio):
    """In order: however slow the host is, the first window meets each block."""
    measured(gpuio)


@pytest.mark.workload("micro/randread")
def test_reads(gpuio):
    measured(gpuio)
