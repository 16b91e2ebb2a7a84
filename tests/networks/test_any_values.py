"""Models with inputs and outputs that are sequences, optional values, strings or narrow floats."""

import json

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from error_checks import check_mentions, raises
from networks_checking import LATHE16
from onnx import TensorProto, helper

import lathe as lt
from lathe.command_line import main
from lathe.networks.comparison import compared, compared_with_onnxruntime

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs, opset=21, domains=()):
    graph = helper.make_graph(nodes, "model", inputs, outputs)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*each) for each in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def info(name, *shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def run(proto, inputs, tmp_path):
    """Run the program, and again after saving and loading; asserts that the outputs are the reference's."""
    network = lt.from_onnx(proto)
    program = network.build(LATHE16)
    program.save(tmp_path / "network.npz")
    result = lt.simulate(program, inputs)
    again = lt.simulate(lt.NetworkProgram.load(tmp_path / "network.npz"), inputs)
    for expected in (again.outputs, lt.reference(network, inputs)):
        assert all(compared(name, result.outputs[name], expected[name]).equal == 1 for name in expected)
    return result.outputs


def test_sequences(tmp_path):
    x = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    y = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    nodes = [helper.make_node("SequenceAt", ["x", "n"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
             helper.make_node("SequenceInsert", ["x", "b"], ["y"])]  # fmt: skip
    proto = model(nodes, [x, info("n", kind=TensorProto.INT64)], [y])
    parts = [np.ones((2, 2), np.float32), np.zeros(3, np.float32)]
    made = run(proto, {"x": parts, "n": np.array(0)}, tmp_path)["y"]
    assert [each.tolist() for each in made] == [[[1, 1], [1, 1]], [0, 0, 0], [[-1, -1], [-1, -1]]]
    assert lt.from_onnx(proto).build(LATHE16).inputs["x"] is None


def test_optional_values(tmp_path):
    x = helper.make_value_info("x", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2])))
    proto = model([helper.make_node("OptionalHasElement", ["x"], ["y"])], [x], [info("y", kind=TensorProto.BOOL)])
    assert run(proto, {"x": None}, tmp_path)["y"].item() is False
    assert run(proto, {"x": np.zeros(2, np.float32)}, tmp_path)["y"].item() is True


def test_texts(tmp_path):
    texts = {"kind": TensorProto.STRING}
    nodes = [helper.make_node("StringConcat", ["x", "x"], ["y"])]
    proto = model(nodes, [info("x", 2, **texts)], [info("y", 2, **texts)])
    for given in (np.array(["a", "bc"]), np.array(["a", "bc"], object)):
        assert run(proto, {"x": given}, tmp_path)["y"].tolist() == ["aa", "bcbc"]
    mentions = ("input 'x'", "shape (2,)", "dtype str", "dtype float64")
    raises(lt.InputError, run, proto, {"x": np.zeros(2)}, tmp_path, mentions=mentions)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn"])
def test_narrow_dtypes(dtype, tmp_path):
    narrow = np.dtype(getattr(ml_dtypes, dtype))
    kind = helper.np_dtype_to_tensor_dtype(narrow)
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=FLOAT), helper.make_node("Mul", ["a", "a"], ["b"]),
             helper.make_node("Cast", ["b"], ["y"], to=kind)]  # fmt: skip
    proto = model(nodes, [info("x", 3, kind=kind)], [info("y", 3, kind=kind), info("x", 3, kind=kind)], opset=23)
    made = run(proto, {"x": np.array([0, 1, 2]).astype(narrow)}, tmp_path)
    assert made["y"].dtype == made["x"].dtype == narrow
    assert made["y"].astype(np.float32).tolist() == [0, 1, 4]


def test_operators_of_other_domains(tmp_path):
    """Operators of onnxruntime's domain, which package onnx does not have, and of ai.onnx.ml."""
    nodes = [helper.make_node("Gelu", ["x"], ["a"], domain="com.microsoft"),
             helper.make_node("Binarizer", ["a"], ["y"], domain="ai.onnx.ml", threshold=0.5)]  # fmt: skip
    proto = model(nodes, [info("x", 3)], [info("y", 3)], domains=[("com.microsoft", 1), ("ai.onnx.ml", 1)])
    assert run(proto, {"x": np.array([-1, 0, 2], np.float32)}, tmp_path)["y"].tolist() == [0, 0, 1]
    unknown = model([helper.make_node("Frobnicate", ["x"], ["y"], "frob", domain="own")], [info("x", 3)],
                    [info("y", 3)], domains=[("own", 1)])  # fmt: skip
    mentions = ("node 'frob'", "host CPU", "onnxruntime", "ONNX's evaluator")
    raises(lt.ModelError, run, unknown, {"x": np.zeros(3, np.float32)}, tmp_path, mentions=mentions)


def test_dynamic_shapes_of_intermediate_values(tmp_path):
    nodes = [helper.make_node("NonZero", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["b"], to=FLOAT),
             helper.make_node("ReduceSum", ["b"], ["y"], keepdims=0)]  # fmt: skip
    proto = model(nodes, [info("x", 4)], [info("y")])
    assert run(proto, {"x": np.array([0, 1, 0, 1], np.float32)}, tmp_path)["y"] == 4


def test_inputs_of_unknown_rank():
    x = helper.make_tensor_value_info("x", FLOAT, None)
    proto = model([helper.make_node("Abs", ["x"], ["y"])], [x], [helper.make_tensor_value_info("y", FLOAT, ["n"])])
    mentions = ("input 'x'", "model 'model'", "of any rank", "shapes={'x': [...]}", "--shape x=")
    raises(lt.ModelError, lt.from_onnx, proto, mentions=mentions)
    assert lt.from_onnx(proto, {"x": [3]}).model.types["y"].shape == (3,)


def test_dimensions_with_the_same_name_have_the_same_size():
    nodes = [helper.make_node("Add", ["x", "z"], ["y"])]
    proto = model(nodes, [info("x", "n", 3), info("z", "n", "k")], [info("y", "n", 3)])
    assert lt.from_onnx(proto, {"x": [2, 3], "z": [2, 1]}).model.types["y"].shape == (2, 3)
    mentions = ("input 'z'", "model 'model'", "[n, k]", [4, 1])
    raises(lt.ModelError, lt.from_onnx, proto, {"x": [2, 3], "z": [4, 1]}, mentions=mentions)
    same = model(nodes, [info("x", "n", 3), info("z", "n", 3)], [info("y", "n", 3)])
    assert lt.from_onnx(same, {"x": [2, 3]}).model.types["z"].shape == (2, 3)


def test_comparisons():
    split = model([helper.make_node("SplitToSequence", ["x"], ["y"])], [info("x", 2, 3)],
                  [helper.make_tensor_sequence_value_info("y", FLOAT, None)])  # fmt: skip
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = compared_with_onnxruntime(lt.from_onnx(split).model, {"x": x}, {"y": [x[:1], x[1:]]})
    assert (found.cosine, found.equal, found.largest, found.shape) == (1, 1, 0, (2,))
    assert compared("y", np.array(["a", "b"], object), np.array(["a", "c"], object)).equal == 0.5
    assert compared("y", np.array([1 + 1j]), np.array([1 - 1j])).cosine == 0
    assert compared("y", None, None).equal == compared("y", [], []).cosine == 1


def test_the_command(tmp_path):
    split = model([helper.make_node("SplitToSequence", ["x"], ["y"])], [info("x", 2, 3)],
                  [helper.make_tensor_sequence_value_info("y", FLOAT, None)])  # fmt: skip
    (tmp_path / "split.onnx").write_bytes(split.SerializeToString())
    found = CliRunner().invoke(main, ["run", str(tmp_path / "split.onnx"), "-c", "lathe16", "--json"])
    assert json.loads(found.output)["outputs"][0]["equal"] == 1
    joined = model([helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)],
                   [helper.make_tensor_sequence_value_info("x", FLOAT, None)], [info("y", "n")])  # fmt: skip
    (tmp_path / "joined.onnx").write_bytes(joined.SerializeToString())
    found = CliRunner().invoke(main, ["run", str(tmp_path / "joined.onnx"), "-c", "lathe16"])
    assert found.exit_code == 2
    check_mentions(" ".join(found.output.split()), "Input 'x'", "numeric tensor", "not another type")
