"""Random models: results equal the reference's and are close to onnxruntime's."""

import numpy as np
import pytest
from networks_checking import LATHE16, random_inputs, with_onnxruntime
from random_onnx import RandomOnnx
from seeds import check_each, event, note

import lathe as lt

WIDE = LATHE16.with_(block_in=8, block_out=32, wgt_buffer_bytes=65536, acc_buffer_bytes=32768)
MACHINES = (LATHE16, LATHE16.with_(block_in=8, wgt_buffer_bytes=65536), WIDE, lt.load_config("vta"))


def check_model(seed: int) -> None:
    layers = RandomOnnx(seed)
    for _ in range(int(layers.random.integers(2, 11))):
        note(layers.grow())
    last = layers.tensors[-1]
    model = layers.graph.model(last)
    machine = MACHINES[seed % 4]
    network = lt.from_onnx(model)
    program = network.build(machine)
    inputs = random_inputs(model, seed)
    result = lt.simulate(program, inputs)
    (name,) = result.outputs
    made, (expected,) = result.outputs[name], with_onnxruntime(model, inputs)
    whole = all(row.where == "npu" or row.why == "it converts between float and 8 bits" for row in result.layers)
    if whole:
        assert np.array_equal(made, lt.reference(network, inputs)[name]), f"seed {seed}: not the reference's"
    assert whole or machine.name == "vta", f"seed {seed}: {[row for row in result.layers if row.why]}"
    apart = np.abs(made - expected) / layers.graph.scales[last]
    assert np.mean(apart < 1.5) > 0.9, f"seed {seed}: {np.mean(apart < 1.5)} of the values within one unit"
    assert sum(row.cycles for row in result.layers) == result.cycles, f"seed {seed}: cycles of rows"
    event("all on the NPU" if whole else "shared")
    event("several streams" if len(program.parts) > 1 else "one stream")


@pytest.mark.seeds(5, slow=259)
def test_random_models(seeds):
    happened = check_each(seeds, check_model)
    assert happened["all on the NPU"]


@pytest.mark.slow
def test_tilings_with_a_single_buffer_of_parameters():
    """The tiling with the fewest loads of parameters may fit one buffer of them, but not two."""
    check_model(701078)
