"""Quantisation of float models by onnxruntime: `lt.quantize`, `lathe quantize`, `lathe run`."""

import json
import logging
import resource

import numpy as np
import onnx
import onnxruntime
import pytest
from error_checks import check_mentions, raises
from invoked import lathe
from networks_checking import LATHE16, random_inputs, with_onnxruntime
from onnx import TensorProto, helper, numpy_helper
from recurrent_models import RecurrentModel

import lathe as lt
from lathe.frontend.onnx.reading import read_model
from lathe.networks import quantize
from lathe.networks.quantize import quantised


def two_products():
    graph = RecurrentModel()
    hidden = graph.node("Relu", graph.product(graph.input(2, 8), 8, 16))
    return graph.model(graph.product(hidden, 16, 4))


def samples(model, count=None, seed=0):
    generator = np.random.default_rng(seed)
    shapes = {name: values.shape for name, values in random_inputs(model).items()}
    front = () if count is None else (count,)
    return {name: generator.standard_normal((*front, *shape)).astype(np.float32) for name, shape in shapes.items()}


def kinds(model):
    return [node.op_type for node in model.graph.node]


def held(model, name):
    (found,) = (each for each in model.graph.initializer if each.name == name)
    return onnx.numpy_helper.to_array(found)


def cosine(a, b):
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def test_all_matmuls_are_layers():
    model = two_products()
    made = lt.quantize(model, samples(model, 6))
    program = lt.from_onnx(made).build(LATHE16)
    inputs = random_inputs(model)
    result = lt.simulate(program, inputs)
    assert sum(row.macs for row in result.layers) == 2 * 8 * 16 + 2 * 16 * 4
    ((name, values),) = result.outputs.items()
    assert cosine(values, with_onnxruntime(model, inputs)[0]) > 0.999
    assert np.array_equal(values, with_onnxruntime(made, inputs)[0])
    assert name == "t2"


def scales_of_dequantised_constants(model):
    constants = {each.name for each in model.graph.initializer}
    nodes = [each for each in model.graph.node if each.op_type == "DequantizeLinear" and each.input[0] in constants]
    return [held(model, each.input[1]) for each in nodes]


def zero_points_of_values(model):
    return [int(held(model, each.input[2])) for each in model.graph.node if each.op_type == "QuantizeLinear"]


def test_options_reach_the_quantiser():
    model = two_products()
    data = samples(model)
    assert {each.size for each in scales_of_dequantised_constants(lt.quantize(model, data))} == {16, 4}
    one = lt.quantize(model, data, per_channel=False)
    assert {each.size for each in scales_of_dequantised_constants(one)} == {1}
    assert any(zero_points_of_values(one))
    assert not any(zero_points_of_values(lt.quantize(model, data, symmetric=True)))
    only = lt.quantize(model, data, only=["Relu"])
    assert scales_of_dequantised_constants(only) == []


def test_the_ranges_are_those_of_all_samples():
    model = two_products()
    data = samples(model, 3)
    data["x"][1, 0, 0] = 100.0
    made = lt.quantize(model, data)
    (first,) = (each for each in made.graph.node if each.op_type == "QuantizeLinear" and each.input[0] == "x")
    low = min(float(data["x"].min()), 0.0)
    assert held(made, first.input[1]) == pytest.approx((100.0 - low) / 255, rel=1e-5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_matmuls_run_on_the_npu(kind):
    graph = RecurrentModel()
    every, *_ = graph.recurrent(kind, graph.input(3, 1, 8), 16)
    model = graph.model(graph.product(graph.node("Squeeze", every, graph.constant(np.array([1]))), 16, 4))
    made = lt.quantize(model, samples(model, 8))
    network = lt.from_onnx(made)
    program = network.build(LATHE16)
    inputs = random_inputs(model)
    result = lt.simulate(program, inputs)
    products = {row.name: row.macs for row in result.layers if row.macs}
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    state_products = 2 * gates * 16 * 16
    assert sum(products.values()) == 3 * gates * 16 * 8 + state_products + 3 * 16 * 4
    assert {row.where for row in result.layers if row.name in products} == {"npu"}
    for name, values in lt.reference(network, inputs).items():
        assert np.array_equal(result.outputs[name], values)
    (values,) = result.outputs.values()
    assert cosine(values, with_onnxruntime(made, inputs)[0]) > 0.9999
    assert cosine(values, with_onnxruntime(model, inputs)[0]) > 0.99


def test_recurrent_nodes_are_not_unrolled_without_gemm():
    graph = RecurrentModel()
    _, last, _ = graph.recurrent("LSTM", graph.input(3, 1, 8), 16)
    model = graph.model(graph.product(last, 16, 4))
    made = quantised(read_model(model), [samples(model)], only=["MatMul"])
    assert [*made.not_unrolled] == ["LSTM0"]
    check_mentions(made.not_unrolled["LSTM0"], "Gemm")
    assert made.unrolled == ()
    assert "LSTM" in kinds(made.proto)


def test_batch_normalisation_is_folded_and_nothing_is_logged(caplog):
    graph = RecurrentModel()
    data = graph.input(1, 3, 8, 8)
    sums = graph.node("Conv", data, graph.weights(4, 3, 3, 3))
    numbers = [graph.constant(graph.random.uniform(0.5, 1, 4).astype(np.float32)) for _ in range(4)]
    model = graph.model(graph.node("BatchNormalization", sums, *numbers))
    with caplog.at_level(logging.DEBUG):
        made = lt.quantize(model, samples(model))
    assert "BatchNormalization" not in kinds(made)
    assert caplog.records == []


def replaced(tmp_path, monkeypatch, function: str, body: str) -> None:
    """Replace the body of a function that the host worker calls."""
    path = tmp_path / "ort_quantizer.py"
    source = quantize.QUANTISER.read_text(encoding="utf-8")
    path.write_text(f"{source}\n\ndef {function}(**_):\n    {body}\n", encoding="utf-8")
    monkeypatch.setattr(quantize, "QUANTISER", path)


def test_a_failed_preparation_is_reported(tmp_path, monkeypatch):
    replaced(tmp_path, monkeypatch, "prepared", 'raise IndexError("list index out of range")')
    model = two_products()
    made = quantised(read_model(model), [samples(model)])
    assert made.unprepared == "list index out of range"
    assert "QuantizeLinear" in kinds(made.proto)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_quantiser_that_crashes_its_process(tmp_path, monkeypatch):
    model = two_products()
    with monkeypatch.context() as patch:
        replaced(tmp_path, patch, "prepared", "os.abort()")
        check_mentions(quantised(read_model(model), [samples(model)]).unprepared, "process", "SIGABRT")
    replaced(tmp_path, monkeypatch, "quantised", "os.abort()")
    refused(model, samples(model), "'model'", "onnxruntime's quantiser", "SIGABRT")


def bomb(*nodes, held=()) -> onnx.ModelProto:
    """A matmul, and independent nodes that compute ``bang`` from ``x``."""
    graph = RecurrentModel()
    graph.product(graph.input(2, 8), 8, 5)
    graph.nodes += nodes
    graph.held += [numpy_helper.from_array(values, name) for name, values in held]
    made = graph.model(graph.nodes[0].output[0])
    made.graph.output.append(helper.make_tensor_value_info("bang", TensorProto.FLOAT, None))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("of_input", [False, True])
def test_more_memory_than_the_limit(monkeypatch, of_input):
    """In constant folding, and in calibration."""
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "1")
    first = helper.make_node("ReduceSum", ["x"], ["one"], "one", keepdims=0)
    model = bomb(
        *([first] if of_input else []),
        helper.make_node("Expand", ["one", "sizes"], ["big"], "big"),
        helper.make_node("ReduceSum", ["big"], ["bang"], "sum", keepdims=0),
        held=[("sizes", np.array([1 << 20, 1 << 10])), *([] if of_input else [("one", np.ones((), np.float32))])],
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(model, samples(model), "quantisation", "'model'", "1 GiB", "LATHE_HOST_GIBIBYTES")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KiB


@pytest.mark.slow
def test_an_endless_loop_is_killed(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "5")
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go2"]), helper.make_node("Identity", ["v"], ["v2"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("go2", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v2", TensorProto.FLOAT, [2, 8])],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["", "flag", "x"], ["bang"], "for_ever", body=body)
    model = bomb(loop, held=[("flag", np.array(True))])
    refused(model, samples(model), "quantisation", "'model'", "5 seconds", "LATHE_HOST_SECONDS")


def test_old_opsets_are_converted_to_one_with_per_channel_scales():
    graph = RecurrentModel(opset=11)
    model = graph.model(graph.node("Conv", graph.input(1, 3, 6, 6), graph.weights(5, 3, 3, 3)))
    made = lt.quantize(model, samples(model))
    assert max(each.version for each in made.opset_import if each.domain in ("", "ai.onnx")) >= 13
    assert {each.size for each in scales_of_dequantised_constants(made)} == {5}
    onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def test_biases_of_one_row_have_per_channel_scales():
    """onnxruntime fuses both nodes to a Gemm, and its quantiser then fails at the bias."""
    graph = RecurrentModel()
    product = graph.product(graph.input(2, 8), 8, 5)
    model = graph.model(graph.node("Add", product, graph.weights(1, 5)))
    made = lt.quantize(model, samples(model))
    assert "Gemm" in kinds(made)
    assert {each.size for each in scales_of_dequantised_constants(made)} == {5}


def test_shapes_that_follow_from_folded_constants():
    graph = RecurrentModel(opset=11)
    data = graph.node("Relu", graph.input(2, 8))
    shape = graph.node("Abs", graph.node("Shape", data))
    graph.node("Reshape", graph.product(data, 8, 8), shape)
    made = [helper.make_tensor_value_info("t4", TensorProto.FLOAT, ["a", "b"])]
    proto = helper.make_graph(graph.nodes, "folded", graph.inputs, made, graph.held)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    quantised_model = lt.quantize(model, samples(model))
    assert "Shape" not in kinds(quantised_model)
    assert lt.from_onnx(quantised_model).model.types["t4"].shape == (2, 8)


def refused(model, data, *mentions, **options):
    raises(lt.ModelError, lt.quantize, model, data, kind="argument", mentions=mentions, **options)


def test_invalid_calibration_data():
    model = two_products()
    good = np.zeros((2, 8), np.float32)
    form = ("calibration data of 'x'", "shape (2, 8) and dtype float32")
    refused(model, 3, "calibration data", "(x)", 3)
    refused(model, {}, "calibration data", "x", "none")
    refused(model, {"x": good, "z": good}, "calibration data", "x, z")
    refused(model, {"x": good[:1]}, *form, "not of shape (1, 8) and dtype float32")
    refused(model, {"x": good.astype(np.float64)}, *form, "not of shape (2, 8) and dtype float64")
    refused(model, {"x": good[np.newaxis][:0]}, *form, "not of shape (0, 2, 8) and dtype float32")
    refused(model, {"x": good + np.nan}, "calibration data of 'x'", "finite")
    graph = RecurrentModel()
    two = graph.model(graph.node("Add", graph.input(2, 8), graph.input(2, 8, name="z")))
    refused(two, {"x": good, "z": good[np.newaxis].repeat(2, 0)}, "calibration data", "1 of 'x'", "2 of 'z'")


def test_models_and_kinds_that_are_refused():
    model = two_products()
    data = samples(model)
    refused(model, data, "operators to quantise", [], only=[])
    refused(model, data, "operators to quantise", "'Conv'", only="Conv")
    refused(model, data, "operators to quantise", "onnxruntime's quantiser", "(Add", "'Foo'", only=["Foo"])
    made = lt.quantize(model, data)
    first = made.graph.node[0]
    refused(made, data, "'model'", "already quantised", repr(first.name), first.op_type)


@pytest.fixture
def model(tmp_path):
    made = two_products()
    (tmp_path / "float.onnx").write_bytes(made.SerializeToString())
    np.savez(tmp_path / "data.npz", **samples(made, 5))
    np.savez(tmp_path / "one.npz", **random_inputs(made))
    return tmp_path


def test_the_command(model):
    result = lathe("quantize", model / "float.onnx", "-o", model / "q.onnx", "--calibration", model / "data.npz")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    with np.load(model / "data.npz") as data:
        expected = lt.quantize(model / "float.onnx", dict(data))
    assert (model / "q.onnx").read_bytes() == expected.SerializeToString()
    told = " ".join(result.stdout.split())
    assert "samples 5 (data.npz)" in told
    assert "quantised 2 MatMul" in told
    assert lathe("run", model / "q.onnx", "-c", "lathe16").exit_code == 0


def test_random_data_give_a_warning(model):
    result = lathe("quantize", model / "float.onnx", "-o", model / "q.onnx", "--random", 7, "--only", "MatMul, Relu")
    assert result.exit_code == 0
    check_mentions(result.stderr, "WARNING: float.onnx", "8 samples", "seed 7", "--calibration")
    first = (model / "q.onnx").read_bytes()
    lathe("quantize", model / "float.onnx", "-o", model / "q.onnx", "--random", 7, "--only", "MatMul,Relu")
    assert (model / "q.onnx").read_bytes() == first


def test_nodes_that_are_not_unrolled_are_reported(model):
    graph = RecurrentModel()
    lengths = np.array([2], np.int32)
    made = graph.model(*graph.recurrent("LSTM", graph.input(3, 1, 8), 16, lengths=lengths)[1:2])
    (model / "lstm.onnx").write_bytes(made.SerializeToString())
    result = lathe("quantize", model / "lstm.onnx", "-o", model / "q.onnx")
    check_mentions(result.stderr, "LSTM0", "sequence_lens")


def test_invalid_options(model):
    command = ("quantize", model / "float.onnx", "-o", model / "q.onnx")
    mentions = {
        (*command, "--calibration", model / "data.npz", "--random", 1): ("--random", "--calibration", "not 1"),
        (*command, "--random", -1): ("--random", "at least 0", "not -1"),
        (*command, "--calibration", model / "float.onnx"): ("calibration data", str(model / "float.onnx"), ".npz"),
        (*command, "--shape", "x=3,8"): ("input 'x'", "'float.onnx'", "[2, 8]", "[3, 8]"),
    }
    for words, expected in mentions.items():
        result = lathe(*words)
        assert result.exit_code == 2
        check_mentions(result.stderr, "Error", *expected)
    assert not (model / "q.onnx").exists()


def test_a_float_model_is_quantised_for_a_run(model):
    result = lathe("run", model / "float.onnx", "-c", "lathe16", "--json")
    check_mentions(result.stderr, "WARNING: float.onnx", "8 samples", "seed 0")
    told = json.loads(result.stdout)
    assert told["calibration"] == "random"
    assert sum(row["macs"] for row in told["layers"] if row["where"] == "npu") == 2 * 8 * 16 + 2 * 16 * 4
    assert all(output["cosine"] > 0.999 for output in told["outputs"])
    result = lathe("run", model / "float.onnx", model / "one.npz", "-c", "lathe16", "--json")
    assert json.loads(result.stdout)["calibration"] == "inputs"
    check_mentions(result.stderr, "WARNING: float.onnx", "one.npz", "`lathe quantize`")
    result = lathe("run", model / "float.onnx", model / "data.npz", "-c", "lathe16")
    assert result.exit_code == 2
    check_mentions(result.stderr, "input 'x'", "shape (2, 8) and dtype float32")


def test_a_model_that_cannot_be_quantised_runs_in_float(model, tmp_path, monkeypatch):
    replaced(tmp_path, monkeypatch, "quantised", 'raise ValueError("no such thing")')
    result = lathe("run", model / "float.onnx", "-c", "lathe16", "--json")
    assert result.exit_code == 0
    check_mentions(result.stderr, "WARNING", "float.onnx", "cannot be quantised", "'float.onnx'", "no such thing")
    assert json.loads(result.stdout)["calibration"] == "none"


def test_other_commands_suggest_quantisation(model):
    for words in (("compile", "-o", model / "p.npz"), ("explain",), ("simulate", "--timing-only")):
        result = lathe(words[0], model / "float.onnx", "-c", "lathe16", *words[1:])
        assert result.exit_code == 0, result.output
        check_mentions(result.stderr, "float.onnx", "8 bits", "host CPU", "`lathe quantize`")


def test_an_integer_model_is_not_quantised(tmp_path):
    value, made = (helper.make_tensor_value_info(name, TensorProto.INT64, [3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "whole", [value], [made])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "whole.onnx").write_bytes(proto.SerializeToString())
    result = lathe("run", tmp_path / "whole.onnx", "-c", "lathe16", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
