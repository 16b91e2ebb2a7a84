"""Splitting of large partitions into several streams."""

import numpy as np
import pytest
from networks_checking import LATHE16, checked, random_inputs
from qdq_models import QdqModel

import lathe as lt
from lathe.networks import split_partitions


def chain():
    """A chain of matmuls, of which the third and last are outputs; the first is added to the sixth."""
    graph = QdqModel(seed=2)
    made = [graph.product(graph.input(4, 24), 24, name="first")]
    for number in range(5):
        made.append(graph.product(made[-1], 24, name=f"product{number}"))
    made.append(graph.layer("Add", made[-1], made[0], name="sum", scale=graph.scales[made[-1]]))
    made.append(graph.product(made[-1], 5, name="last"))
    model = graph.model(made[2], made[-1])
    names = [each.name for each in model.graph.output]
    return model, {name: graph.scales[each] for name, each in zip(names, (made[2], made[-1]), strict=True)}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("most", "streams"), [(1, 8), (3, 3), (4, 2), (8, 1), (128, 1)])
def test_the_bits_are_those_of_one_stream(most, streams, monkeypatch):
    model, units = chain()
    whole = checked(model, units=units)
    monkeypatch.setattr(split_partitions, "MOST_LAYERS", most)
    program = lt.from_onnx(model).build(LATHE16)
    assert len(program.parts) == streams
    cut = checked(model, units=units)
    assert all(np.array_equal(cut.outputs[name], values) for name, values in whole.outputs.items())
    assert [(row.name, row.where, row.macs) for row in cut.layers] == [
        (row.name, row.where, row.macs) for row in whole.layers
    ]


def test_streams_are_balanced_and_have_only_live_outputs(monkeypatch):
    model, _ = chain()
    monkeypatch.setattr(split_partitions, "MOST_LAYERS", 3)
    program = lt.from_onnx(model).build(LATHE16)
    steps = [step for step in program.steps if hasattr(step, "layers")]
    assert [len(step.layers) for step in steps] == [2, 3, 3]
    # The last stream also reads the first matmul, and the third is an output of the model.
    assert [(len(step.inputs), len(step.outputs)) for step in steps] == [(1, 2), (1, 2), (2, 1)]
    assert lt.simulate(program, random_inputs(model)).cycles > 0
