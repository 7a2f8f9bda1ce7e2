"""The cells of ``--gpuio-plan``: what runs when no suite is named."""


def test_sweep(gpuio):
    """One cell of the plan, in the plan's order."""
    gpuio.run()
