"""Random quantised layers: RTL and simulator agree in bits and cycles, and with ONNX except for rounding of ties."""

import numpy as np
import pytest
from onnx_layers import quantised_layer
from random_programs import Choice
from random_quantised import rescaling
from test_programs import differences

import lathe as lt
from lathe.rtl.engines import verilator

EXTENSIONS = ("pad_value", "gemm_begin")
MACHINES = [
    rescaling(lt.load_config(name).with_(extensions=EXTENSIONS, **changes))
    for name, changes in [
        ("tiny", {}),
        ("vta", {"memory.latency": 0}),
        ("batch4", {}),
        ("tiny", {"block_in": 8, "memory.bus_bits": 128, "acc_buffer_bytes": 8192}),
    ]
]


def compared(seeds, hardware):
    """Run layers; returns the number of output values, and how many of them differ from ONNX's definition."""
    outputs = differ = 0
    for seed in seeds:
        choice = Choice(seed)
        layer = quantised_layer(choice)
        machine = choice.pick(MACHINES)
        program = lt.build(layer.output, layer.tensors, machine)
        made = lt.simulate(program, layer.inputs).outputs["Y"]
        assert np.array_equal(made, lt.reference(layer.output, layer.inputs)), f"seed {seed}: bits"
        if hardware:
            found = differences(program, layer.inputs, verilator.run)
            assert found == [], f"seed {seed}: {found}"
        assert np.array_equal(made, layer.by_factors()), f"seed {seed}: not the exact product with a factor"
        expected = layer.expected()
        apart = made != expected
        assert np.abs(made.astype(int) - expected.astype(int)).max() <= 1, f"seed {seed}: more than one unit"
        assert not (apart & ~layer.next_to_a_half()).any(), f"seed {seed}: differs away from ties"
        outputs += made.size
        differ += int(apart.sum())
    return outputs, differ


@pytest.mark.slow
@pytest.mark.seeds(1, slow=399, block=1)
def test_random_layers_agree_with_the_rtl_and_with_onnx(seeds):
    outputs, differ = compared(seeds, hardware=True)
    assert differ <= outputs / 1000


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1000, block=250)
def test_five_thousand_random_layers_agree_with_the_rtl(seeds):
    outputs, differ = compared(seeds, hardware=True)
    assert differ <= outputs / 1000


def test_a_factor_that_is_exact_rounds_as_onnx_does():
    """Ties and values next to ties, with powers of two as factors: every result equals ONNX's."""
    total = np.arange(-700, 700, dtype=np.int32).reshape(-1, 4)
    sums = lt.placeholder(total.shape, "int32", name="sums")
    P = lt.placeholder((4, 2), "int32", name="P")
    output = lt.requantise(sums, parameters=P, zero_point=3, name="Y")
    program = lt.build(output, [sums, P, output], MACHINES[0])
    scale = np.array([1 / 2, 1 / 4, 1 / 8, 1.0])
    made = lt.simulate(program, {"sums": total, "P": lt.rescale_parameters(scale)}).outputs["Y"]
    assert np.array_equal(made, np.clip(np.rint(total * scale) + 3, -128, 127))
