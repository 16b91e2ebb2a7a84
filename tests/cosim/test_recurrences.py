"""A recurrent network of two layers on simulator and RTL, in the declared order and along the wavefront."""

import pytest
from recurrent_programs import TwoLayers

import lathe as lt


@pytest.mark.parametrize("wavefront", [False, True])
def test_two_layers_on_the_rtl(wavefront):
    network = TwoLayers(steps=2, size=8)
    s = lt.create_schedule([network.h, network.c])
    if wavefront:
        along, diagonal = s[network.h].skew("t", "l")
        s[network.h].reorder(diagonal, along)
        s[network.h].parallelize(along)
    program = lt.build(s, [*network.inputs, network.h, network.c], lt.load_config("tiny"))
    data = network.data()
    ran = lt.cosimulate(program, data, engines=("sim", "pysim")).check()
    for name, values in network.meaning(data).items():
        assert (ran.results["pysim"].outputs[name] == values).all()
