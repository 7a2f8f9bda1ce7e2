"""Training workloads by the published parameters of MLPerf Storage v2 and v3; not an MLPerf submission."""

import pytest


@pytest.mark.workload("pretrain/dataset_media[profile=unet3d_h100]")
def test_unet3d(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_media[profile=resnet50_h100,scale=0.005]")
def test_resnet50(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_media[profile=cosmoflow_h100,scale=0.01]")
def test_cosmoflow(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_media[profile=retinanet_b200,scale=0.01]")
def test_retinanet(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_media[profile=flux_b200,epochs=1,scale=0.0002]")
def test_flux(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/dataset_columnar")
def test_dlrm(gpuio):
    gpuio.run()
