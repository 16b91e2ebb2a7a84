"""Whole models: residual ones, encoders and decoders, several streams with host nodes in between; and machines."""

import numpy as np
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, checked, random_inputs, where
from qdq_models import QdqModel

import lathe as lt


@pytest.mark.slow
def test_residual_blocks():
    graph = QdqModel(seed=1)
    data = graph.conv(graph.input(1, 3, 16, 16), 20, 3, relu=True, strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        branch = graph.conv(graph.conv(data, 20, relu=True, pads=[1, 1, 1, 1]), 20, pads=[1, 1, 1, 1])
        made = graph.quantised(graph.node("Relu", graph.node("Add", branch, data)), 0.1)
        graph.shapes[made] = graph.shapes[data]
        data = made
    pooled = graph.layer("GlobalAveragePool", data)
    flat = graph.layer("Flatten", pooled, same=True)
    made = graph.product(flat, 10)
    result = checked(graph.model(made), units={made: 3 * graph.scales[made]})
    assert {row.where for row in result.layers if "Linear" not in row.name} == {"npu"}
    assert len(result.results) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("channels", [24, 16, 3])
def test_downsampling_and_upsampling(channels):
    """An encoder and decoder with a skip connection, with channels that fill blocks and that do not."""
    graph = QdqModel(seed=2)
    first = graph.conv(graph.input(1, 3, 8, 8), channels, relu=True, pads=[1, 1, 1, 1])
    small = graph.layer("MaxPool", first, same=True, kernel_shape=[2, 2], strides=[2, 2])
    inner = graph.conv(small, channels, relu=True, pads=[1, 1, 1, 1])
    scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
    large = graph.layer("Resize", inner, "", scales, scale=graph.scales[inner], mode="nearest",
                        coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    both = graph.layer("Concat", large, first, scale=graph.scales[inner], axis=1)
    made = graph.conv(both, 5, 1)
    result = checked(graph.model(made, both), units={made: 3 * graph.scales[made], both: graph.scales[both]})
    assert {row.where for row in result.layers if "Linear" not in row.name} == {"npu"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("zero_point", [0, -128])
@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2]},
        {"strides": [2, 1], "pads": [0, 1, 1, 0], "output_padding": [1, 0]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_shape": [10, 12]},
    ],
)
def test_transposed_convolutions(attributes, zero_point):
    graph = QdqModel(seed=3)
    data = graph.quantised(graph.input(1, 6, 5, 6), 0.02, zero_point)
    weights, _ = graph.weights(6, 7, 3, 3, per_channel=False)
    made = graph.node("ConvTranspose", data, weights, name="layer", kernel_shape=[3, 3], **attributes)
    made = graph.quantised(made, 0.1)
    result = checked(graph.model(made), units={made: 0.1})
    assert where(result)["layer"] == "npu"


@pytest.mark.parametrize(
    ("kind", "shape", "attributes"),
    [
        ("Transpose", (1, 6, 5, 7), {"perm": [0, 2, 3, 1]}),
        ("Transpose", (1, 6, 5, 7), {"perm": [0, 1, 3, 2]}),
        ("Transpose", (2, 20, 30), {"perm": [0, 2, 1]}),
        ("Concat", (1, 6, 5, 7), {"axis": 2}),
        ("Concat", (2, 20, 30), {"axis": -1}),
    ],
)
def test_moves(kind, shape, attributes):
    graph = QdqModel(seed=4, dtype="uint8")
    data = graph.input(*shape)
    operands = [data, graph.input(*shape, name="y", scale=0.03)] if kind == "Concat" else [data]
    made = graph.layer(kind, *operands, name="layer", scale=0.03, **attributes)
    result = checked(graph.model(made), units={made: 0.03})
    assert where(result)["layer"] == "npu"


@pytest.mark.parametrize("sizes", [(8, 12), (20,), (3, 4, 13)])
def test_slices_of_channels(sizes):
    graph = QdqModel(seed=5)
    total = sum(sizes)
    data = graph.conv(graph.input(1, 3, 4, 5), total, 1)
    ends = np.cumsum(sizes)
    outputs = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        held = [graph.constant(np.array([each], np.int64)) for each in (start, end, 1)]
        outputs.append(graph.layer("Slice", data, *held, scale=graph.scales[data]))
    units = dict.fromkeys(outputs, graph.scales[data] * 2)
    result = checked(graph.model(*outputs), units=units)
    rows = [row for row in result.layers if row.name.startswith("Slice")]
    assert {row.where for row in rows} == {"npu"}
    assert sum(not row.name.endswith(".requantised") for row in rows) == len(sizes)


def test_padding():
    graph = QdqModel(seed=6)
    widths = graph.constant(np.array([0, 0, 1, 2, 0, 0, 0, 3], np.int64))
    made = graph.layer("Pad", graph.input(1, 6, 5, 7), widths, name="layer")
    assert where(checked(graph.model(made), units={made: graph.scales[made]}))["layer"] == "npu"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("value", [0.37, -1e30])
def test_padding_with_values_that_are_not_representable(dtype, value):
    """The padding value is quantised: to the nearest value, or saturated to the smallest."""
    graph = QdqModel(seed=6, dtype=dtype)
    widths = graph.constant(np.array([0, 0, 1, 2, 0, 0, 0, 3], np.int64))
    filling = graph.constant(np.array(value, np.float32))
    made = graph.layer("Pad", graph.input(1, 6, 5, 7), widths, filling, name="layer", scale=0.02)
    assert where(checked(graph.model(made), units={made: 0.02}))["layer"] == "npu"


@pytest.mark.parametrize(
    ("mode", "rounding", "factor", "place"),
    [
        ("pytorch_half_pixel", "round_prefer_floor", 3, "npu"),
        ("pytorch_half_pixel", "round_prefer_ceil", 2, "npu"),
        ("asymmetric", "round_prefer_floor", 2, "npu"),
        ("asymmetric", "round_prefer_floor", 3, "host"),
        ("asymmetric", "ceil", 2, "host"),
    ],
)
def test_values_repeated(mode, rounding, factor, place):
    graph = QdqModel(seed=8)
    data = graph.conv(graph.input(1, 3, 5, 6), 18)
    scales = graph.constant(np.array([1, 1, factor, factor], np.float32))
    made = graph.layer("Resize", data, "", scales, same=True, name="layer", mode="nearest",
                       coordinate_transformation_mode=mode, nearest_mode=rounding)  # fmt: skip
    assert where(checked(graph.model(made), units={made: graph.scales[made]}))["layer"] == place


def test_a_normalisation_of_channels_is_a_table_for_each():
    graph = QdqModel(seed=7)
    data = graph.input(1, 20, 5, 6)
    held = [graph.constant(graph.random.uniform(0.5, 2, 20).astype(np.float32)) for _ in range(4)]
    made = graph.quantised(graph.node("BatchNormalization", data, *held, name="layer"), 0.03)
    result = checked(graph.model(made), units={made: 0.03})
    assert [row.where for row in result.layers].count("npu") == 1


def test_matmuls_of_two_computed_tensors():
    graph = QdqModel(seed=8)
    a = graph.quantised(graph.input(2, 9, 20), 0.02, 0)
    b = graph.quantised(graph.input(2, 20, 11, name="y"), 0.02, 0)
    made = graph.quantised(graph.node("MatMul", a, b, name="layer"), 0.05)
    result = checked(graph.model(made), units={made: 0.05})
    assert where(result)["layer"] == "npu"


def test_a_machine_without_extensions_leaves_layers_to_the_host():
    graph = QdqModel(seed=9)
    made = graph.conv(graph.input(1, 3, 6, 6), 5, name="layer")
    model = graph.model(made)
    program = lt.from_onnx(model).build(lt.load_config("vta"))
    result = lt.simulate(program, random_inputs(model))
    row = next(row for row in result.layers if row.name == "layer")
    assert row.where == "host"
    check_mentions(row.why, "'vta'", "'rescale'")
    assert result.cycles == 0


def test_data_of_other_scales_on_a_machine_without_tables():
    """A Concat on a machine without the Lookups that requantise its operands runs on the host CPU."""
    graph = QdqModel(seed=12)
    one, other = graph.input(1, 6, 4, 5), graph.layer("Tanh", graph.input(1, 6, 4, 5, name="y"), scale=0.01)
    made = graph.layer("Concat", one, other, axis=1, name="layer", scale=0.05)
    for config, missing in (
        (lt.load_config("vta"), "extensions 'rescale' and 'lookup'"),
        (LATHE16.with_(extensions=("rescale",), lut_buffer_bytes=0), "extension 'lookup'"),
    ):
        result = checked(graph.model(made), config, units={made: 0.05})
        row = next(row for row in result.layers if row.name == "layer")
        assert (row.where, row.why) == ("host", f"machine {config.name!r} has no {missing}")


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(2, 8, 16), (1, 16, 8), (1, 8, 32)])
def test_other_machines(shape):
    batch, block_in, block_out = shape
    config = LATHE16.with_(
        batch=batch, block_in=block_in, block_out=block_out, wgt_buffer_bytes=65536, acc_buffer_bytes=32768
    )
    graph = QdqModel(seed=10)
    first = graph.conv(graph.input(2, 3, 8, 8), 24, relu=True, pads=[1, 1, 1, 1])
    made = graph.conv(graph.conv(first, 24, pads=[1, 1, 1, 1]), 10, 1, strides=[2, 2])
    checked(graph.model(made), config, units={made: 3 * graph.scales[made]})


def test_an_input_that_is_an_output_and_an_unused_one():
    graph = QdqModel(seed=11)
    made = graph.conv(graph.input(1, 3, 6, 6), 5)
    graph.input(1, 2, name="unused")
    model = graph.model(made)
    model.graph.output.append(model.graph.input[0])
    program = lt.from_onnx(model).build(LATHE16)
    inputs = random_inputs(model)
    assert np.array_equal(lt.simulate(program, inputs).outputs["x"], inputs["x"])


def test_a_network_is_shown_in_a_line():
    graph = QdqModel()
    model = graph.model(graph.conv(graph.input(1, 3, 6, 6), 5, name="layer"))
    network = lt.from_onnx(model)
    name, count = network.model.name, len(network.model.nodes)
    shown = f"{', '.join(network.model.inputs)} -> {', '.join(network.model.outputs)}"
    assert repr(network) == f"Network({name}, {count} nodes, {shown})"
