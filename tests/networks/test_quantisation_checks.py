"""A wrong number of scales, zero points or biases: an error with the node's name, before anything is compiled."""

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import lathe as lt
from lathe.command_line import main

FILTERS = 4
MICROSOFT = "com.microsoft"


def scales(count):
    """``count`` scales; without a count a scalar."""
    return np.full(count or (), 0.1, np.float32)


def zeros(count, dtype="int8"):
    return np.zeros(count or (), dtype)


def constants(weights, **changed):
    return {
        "xs": scales(0), "xz": zeros(0), "w": weights, "ws": scales(0), "wz": zeros(0), "ys": scales(0),
        "yz": zeros(0), **changed,
    }  # fmt: skip


def model(nodes, held, x, y, made="INT8"):
    values = [(name, getattr(TensorProto, kind), shape) for name, kind, shape in (("x", "INT8", x), ("y", made, y))]
    given, found = (helper.make_tensor_value_info(*each) for each in values)
    initializers = [numpy_helper.from_array(each, name) for name, each in held.items()]
    graph = helper.make_graph(nodes, "net", [given], [found], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def weights_of_conv():
    return np.random.default_rng(0).integers(-127, 128, (FILTERS, 3, 3, 3), np.int8)


def qlinear_conv(**changed):
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", *(["b"] if "b" in changed else [])]
    node = helper.make_node("QLinearConv", inputs, ["y"], "conv", pads=[1] * 4)
    return model([node], constants(weights_of_conv(), **changed), [1, 3, 6, 6], [1, FILTERS, 6, 6])


def qdq_conv(axis=0, **changed):
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"], "of_data"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], "of_weights", axis=axis),
    ]
    held = constants(weights_of_conv(), **changed)
    if "bs" in changed:
        held["b"] = np.zeros(FILTERS, np.int32)
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bf"], "of_bias", axis=0))
    nodes += [
        helper.make_node("Conv", ["xf", "wf", *(["bf"] if "bs" in changed else [])], ["c"], "conv", pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"], "of_result"),
    ]
    return model(nodes, held, [1, 3, 6, 6], [1, FILTERS, 6, 6])


def matrices(kind, domain="", **changed):
    inputs = ["x", "xs", "xz", "w", "ws", "wz", *(["b"] if kind == "QGemm" else []), "ys", "yz"]
    node = helper.make_node(kind, inputs, ["y"], "product", domain=domain)
    held = constants(np.ones((6, FILTERS), np.int8), b=np.zeros(FILTERS, np.int32), **changed)
    return model([node], {name: held[name] for name in inputs if name in held}, [2, 6], [2, FILTERS])


def integer(kind, weights, shape, made, **changed):
    held = {"xz": zeros(0), "w": weights, "wz": zeros(0), **changed}
    attributes = {"pads": [1] * 4} if kind == "ConvInteger" else {}
    node = helper.make_node(kind, ["x", "w", "xz", "wz"], ["y"], "sums", **attributes)
    return model([node], held, shape, made, "INT32")


def of_filters(what, name, node, count, axis=0):
    return (
        f"{what} {name!r} of node {node!r} must have 1 element or 4, as many as dimension {axis} of 'w', not {count}."
    )


def conv_integer(**changed):
    return integer("ConvInteger", weights_of_conv(), [1, 3, 6, 6], [1, FILTERS, 6, 6], **changed)


def matmul_integer(**changed):
    return integer("MatMulInteger", np.ones((6, FILTERS), np.int8), [2, 6], [2, FILTERS], **changed)


REFUSED = {
    "conv, 3 scales, 4 zero points": (
        qlinear_conv(ws=scales(3), wz=zeros(4)), of_filters("scale", "ws", "conv", 3)),
    "conv, 4 scales, 3 zero points": (
        qlinear_conv(ws=scales(4), wz=zeros(3)), of_filters("zero point", "wz", "conv", 3)),
    "conv, 3 of both": (qlinear_conv(ws=scales(3), wz=zeros(3)), of_filters("scale", "ws", "conv", 3)),
    "conv, 3 zero points": (qlinear_conv(wz=zeros(3)), of_filters("zero point", "wz", "conv", 3)),
    "conv, 3 scales of data": (
        qlinear_conv(xs=scales(3)), "scale 'xs' of node 'conv' must have 1 element, not 3."),
    "conv, 4 zero points of the result": (
        qlinear_conv(yz=zeros(4)), "zero point 'yz' of node 'conv' must have 1 element, not 4."),
    "conv, 3 biases": (
        qlinear_conv(b=np.zeros(3, np.int32)),
        "bias 'b' of node 'conv' must have 4 elements, as many as dimension 0 of 'w', not shape [3]."),
    "QDQ, 3 scales, 4 zero points": (
        qdq_conv(ws=scales(3), wz=zeros(4)), of_filters("scale", "ws", "of_weights", 3)),
    "QDQ, 4 scales, 3 zero points": (
        qdq_conv(ws=scales(4), wz=zeros(3)), of_filters("zero point", "wz", "of_weights", 3)),
    "QDQ, 3 of both": (qdq_conv(ws=scales(3), wz=zeros(3)), of_filters("scale", "ws", "of_weights", 3)),
    "QDQ, zero point of another dtype": (
        qdq_conv(wz=zeros(0, "uint8")), "zero point 'wz' of node 'of_weights' must be int8, as 'w' is, not uint8."),
    "QDQ, another axis": (
        qdq_conv(4, ws=scales(4), wz=zeros(4)), "axis of node 'of_weights' must be from -4 to 3, not 4."),
    "QDQ, 2 scales of data": (
        qdq_conv(xs=scales(2), xz=zeros(2)),
        "scale 'xs' of node 'of_data' must have 1 element or 3, as many as dimension 1 of 'x', not 2."),
    "QDQ, 2 scales of the result": (
        qdq_conv(ys=scales(2), yz=zeros(2)),
        "scale 'ys' of node 'of_result' must have 1 element or 4, as many as dimension 1 of 'c', not 2."),
    "QDQ, 3 scales of 4 biases": (
        qdq_conv(bs=scales(3), bz=zeros(0, "int32")),
        "scale 'bs' of node 'of_bias' must have 1 element or 4, as many as dimension 0 of 'b', not 3."),
    "QDQ, 3 zero points of 4 biases": (
        qdq_conv(bs=scales(4), bz=zeros(3, "int32")),
        "zero point 'bz' of node 'of_bias' must have 1 element or 4, as many as dimension 0 of 'b', not 3."),
    "matrices, 3 scales, 4 zero points": (
        matrices("QLinearMatMul", ws=scales(3), wz=zeros(4)), of_filters("scale", "ws", "product", 3, 1)),
    "matrices, 4 scales, 3 zero points": (
        matrices("QLinearMatMul", ws=scales(4), wz=zeros(3)), of_filters("zero point", "wz", "product", 3, 1)),
    "matrices, 3 scales of 2 rows": (
        matrices("QLinearMatMul", ys=scales(3)),
        "scale 'ys' of node 'product' must have 1 element or 2, as many as dimension 0 of 'x', not 3."),
    "QGemm, 3 scales": (
        matrices("QGemm", MICROSOFT, ws=scales(3)), of_filters("scale", "ws", "product", 3, 1)),
    "ConvInteger, 3 zero points": (conv_integer(wz=zeros(3)), of_filters("zero point", "wz", "sums", 3)),
    "MatMulInteger, 3 zero points": (matmul_integer(wz=zeros(3)), of_filters("zero point", "wz", "sums", 3, 1)),
    "MatMulInteger, zero point of another dtype": (
        matmul_integer(wz=zeros(0, "uint8")), "zero point 'wz' of node 'sums' must be int8, as 'w' is, not uint8."),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_too_many_or_too_few(what):
    source, words = REFUSED[what]
    with pytest.raises(lt.ModelError) as error:
        lt.from_onnx(source).build(lt.load_config("lathe16"))
    assert str(error.value) == words


@pytest.mark.parametrize(
    "source",
    [
        qlinear_conv(ws=scales(1), wz=zeros(1)),
        qlinear_conv(ws=scales(4)),
        qlinear_conv(wz=zeros(4)),
        qlinear_conv(ws=scales(4), wz=zeros(4)),
        qdq_conv(ws=scales(4), wz=zeros(4)),
        matrices("QLinearMatMul", ws=scales(4), wz=zeros(4)),
        matmul_integer(wz=zeros(4)),
    ],
)
def test_one_for_all_or_for_each_is_a_layer(source):
    program = lt.from_onnx(source).build(lt.load_config("lathe16"))
    shape = [each.dim_value for each in source.graph.input[0].type.tensor_type.shape.dim]
    data = {"x": np.random.default_rng(1).integers(-128, 128, shape, np.int8)}
    result = lt.simulate(program, data)
    assert [each.where for each in result.layers] == ["npu"]


def test_nothing_is_written(tmp_path):
    source, words = REFUSED["conv, 3 of both"]
    onnx.save(source, str(tmp_path / "net.onnx"))
    given, made = str(tmp_path / "net.onnx"), tmp_path / "net.npz"
    for command in (["compile", given, "-c", "lathe16", "-o", str(made)], ["run", given, "-c", "lathe16"]):
        result = CliRunner().invoke(main, command)
        assert (result.exit_code, result.output.strip().removeprefix("Error: ")) == (2, words)
    assert not made.exists()
