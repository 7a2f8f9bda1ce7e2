"""Reading a data set sample by sample while an emulated accelerator computes."""

import pytest


@pytest.mark.workload("pretrain/dataset_text")
def test_text(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_media")
def test_media(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_columnar")
def test_columnar(gpuio):
    gpuio.run()
