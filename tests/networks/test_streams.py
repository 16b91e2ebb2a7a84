"""Partitions that the scheduler can map only after splitting, and layers that it cannot map at all."""

import numpy as np
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, checked, random_inputs, where, with_onnxruntime
from qdq_models import QdqModel

import lathe as lt
from lathe.networks import network as networks


def chain(length: int) -> tuple[QdqModel, str]:
    """A chain of convolutions, each read by the next one and by a sum."""
    graph = QdqModel(seed=1)
    data = graph.input(1, 12, 6, 6)
    for number in range(length):
        made = graph.conv(data, 12, scale=0.05, pads=[1] * 4, name=f"conv{number}")
        data = graph.layer("Add", made, data, scale=0.05, name=f"sum{number}")
    return graph, data


def refused_with(monkeypatch, refuses) -> None:
    """Make the build fail for the programs that ``refuses`` selects by the names of their tensors."""
    build = networks.build_with_stages

    def some(results, tensors, config, constants):
        if refuses(" ".join(each.name for each in tensors)):
            raise lt.LatheError("stage x must be another one, not this one. Change it.")
        return build(results, tensors, config, constants)

    monkeypatch.setattr(networks, "build_with_stages", some)


def test_partitions_that_must_be_split_become_several_streams(monkeypatch):
    graph, made = chain(3)
    refused_with(monkeypatch, lambda names: "conv0." in names and "conv2." in names)
    result = checked(graph.model(made), units={made: 9 * graph.scales[made]})
    assert {row.where for row in result.layers if "Linear" not in row.name} == {"npu"}
    assert len(result.results) == 2


@pytest.mark.slow
def test_a_layer_that_cannot_be_mapped_runs_on_the_host(monkeypatch):
    graph, made = chain(3)
    refused_with(monkeypatch, lambda names: "conv1." in names)
    model = graph.model(made)
    program = lt.from_onnx(model).build(LATHE16)
    inputs = random_inputs(model)
    result = lt.simulate(program, inputs)
    row = next(row for row in result.layers if row.name == "conv1")
    assert row.where == "host"
    check_mentions(row.why, "scheduler", "stage x must be another one, not this one")
    assert [place for name, place in where(result).items() if name.startswith(("conv", "sum"))].count("host") == 1
    (expected,) = with_onnxruntime(model, inputs)
    assert np.abs(next(iter(result.outputs.values())) - expected).max() <= 9.1 * graph.scales[made]


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(1, 5, 6, 3), (1, 25, 6, 7), (1, 5, 3, 3), (1, 14, 8, 3)])
def test_matmuls_of_a_tensor_with_its_transpose(shape):
    """The scheduler cannot use every computed tensor as weights in the same stream."""
    graph = QdqModel(seed=2)
    data = graph.layer("Sigmoid", graph.input(*shape), scale=0.01)
    turned = graph.layer("Transpose", data, same=True, perm=[0, 1, 3, 2])
    made = graph.quantised(graph.node("MatMul", data, turned, name="layer"), 0.02)
    result = checked(graph.model(made), units={made: 2 * graph.scales[made]})
    assert where(result)["layer"] == "npu"


def test_both_slices_of_a_split_have_separate_rows():
    graph = QdqModel(seed=3)
    data = graph.conv(graph.input(1, 3, 6, 6), 24)
    sizes = graph.constant(np.array([7, 17], np.int64))
    first = graph.node("Split", data, sizes, name="split", axis=1)
    graph.nodes[-1].output.append("second")
    made = [graph.quantised(each, 0.02) for each in (first, "second")]
    result = checked(graph.model(*made), units={name: 20 * graph.scales[name] for name in made})
    rows = [row for row in result.layers if row.name == "split"]
    assert len(rows) == 2
    assert all(row.bytes for row in rows)


def test_a_transposed_convolution_of_elements_wider_than_it_loads():
    """The rows of its output are split into two dimensions, those of its input are not."""
    config = LATHE16.with_(block_in=8, block_out=32, wgt_buffer_bytes=65536, acc_buffer_bytes=32768)
    graph = QdqModel(seed=4)
    data = graph.conv(graph.input(1, 37, 6, 4), 37, 1, groups=37)
    weights, _ = graph.weights(37, 7, 2, 2, per_channel=False)
    made = graph.node("ConvTranspose", data, weights, name="layer", strides=[2, 1], pads=[1, 0, 0, 1])
    made = graph.quantised(made, 0.3)
    result = checked(graph.model(made), config, units={made: 3 * 0.3})
    assert where(result)["layer"] == "npu"
