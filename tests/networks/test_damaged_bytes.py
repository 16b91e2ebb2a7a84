"""Models with changed bytes: each is refused with a ModelError, or can be computed."""

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_bad_models import refused, relu
from test_float_results import IMAGE, model, node

import lathe as lt


def of(nodes, held, outputs, opset=17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in held.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def quantised() -> onnx.ModelProto:
    made = model(
        [
            node("Conv", ["xf", "wf", "b"], "c", "layer", pads=[1, 1, 1, 1]), node("Relu", ["c"], "r"),
            node("QuantizeLinear", ["r", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "qf"),
            node("GlobalAveragePool", ["qf"], "g"), node("QuantizeLinear", ["g", "s", "z"], "g8"),
            node("DequantizeLinear", ["g8", "s", "z"], "gf"), node("Softmax", ["gf"], "y", axis=1),
        ],
        [1, 12, 6, 6], IMAGE,
    )  # fmt: skip
    del made.graph.value_info[:]
    return made


def control_flow() -> onnx.ModelProto:
    branches = {
        name: helper.make_graph(
            [node(kind, ["x"], name)], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8])]
        )
        for name, kind in (("then", "Relu"), ("other", "Abs"))
    }
    nodes = [
        node("If", ["flag"], "i", "choice", then_branch=branches["then"], else_branch=branches["other"]),
        node("Slice", ["i", "zero", "two", "one"], "cut"), node("Reshape", ["cut", "all"], "y"),
    ]  # fmt: skip
    numbers = {"zero": np.array([0]), "two": np.array([2]), "one": np.array([1]), "all": np.array([-1])}
    return of(nodes, {"flag": np.array(True), **numbers}, [4])


def integers() -> onnx.ModelProto:
    weights = np.random.default_rng(0).integers(-9, 9, (8, 6)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        node("MatMulInteger", ["xq", "w", "xz"], "i", "sums"), node("Cast", ["i"], "f", to=1),
        node("QuantizeLinear", ["f", "s", "z"], "q"), node("Transpose", ["q"], "t", perm=[1, 0]),
        node("QLinearMatMul", ["q", "s", "z", "t", "s", "z", "s", "z"], "r"),
        node("DequantizeLinear", ["r", "s", "z"], "y"),
    ]  # fmt: skip
    return of(nodes, {"w": weights, "s": np.float32(0.1), "z": np.int8(3)}, [2, 2], opset=13)


MODELS = {"quantised": quantised, "control flow": control_flow, "integers": integers}


def changed(data: bytes, seed: str) -> bytes:
    """The bytes with one to four of them changed, removed or inserted."""
    generator, found = random.Random(seed), bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        at, how = generator.randrange(len(found)), generator.randrange(9)
        if how == 0:
            del found[at]
        elif how == 1:
            found.insert(at, generator.randrange(256))
        elif how < 5:
            found[at] = generator.randrange(256)
        else:
            found[at] ^= 1 << generator.randrange(8)
    return bytes(found)


@pytest.fixture(autouse=True)
def _limits(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "20")
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "1")


def computed(path) -> bool:
    """Whether a model is accepted and computed; errors other than ModelError fail the test."""
    try:
        network = lt.from_onnx(path)
        network.parts(lt.load_config("lathe16"))
        types = [network.model.types.get(name) for name in network.model.inputs]
        # This test cannot generate inputs of other types.
        if any(known is None or known.dtype == "other" or np.prod(known.shape) > 1 << 20 for known in types):
            return True
        kinds = zip(network.model.inputs, types, strict=True)
        lt.reference(network, {name: np.ones(known.shape, known.dtype) for name, known in kinds})
    except lt.ModelError:
        return False
    return True


def check(tmp_path, name, seeds):
    data, path = MODELS[name]().SerializeToString(), tmp_path / "model.onnx"
    taken = 0
    for seed in seeds:
        path.write_bytes(changed(data, f"{name} {seed}"))
        try:
            taken += computed(path)
        except Exception as error:
            raise AssertionError(f"seed {seed} of {name}: {error!r}") from error
    assert 0 < taken < len(seeds)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
def test_changed_bytes(tmp_path, name):
    check(tmp_path, name, range(60))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_changed_bytes(tmp_path, name):
    check(tmp_path, name, range(1000, 2000))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b"Relu", b"Re\xedu", "op_type of node 'y' of model"),
        (b"relu", b"r\xfflu", "name of model"),
        (b"held", b"he\xffd", "name of a tensor of model"),
    ],
)
def test_names_that_are_not_utf8(tmp_path, old, new, what):
    path = tmp_path / "changed.onnx"
    held = [numpy_helper.from_array(np.zeros(3, np.float32), "held")]
    path.write_bytes(relu(1, 2, initializers=held).SerializeToString().replace(old, new))
    refused(path, f"{what} 'changed.onnx'", "UTF-8", repr(new))


def test_unknown_element_types():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "held")
    for number in (0, 67):
        tensor.data_type = number
        refused(relu(1, 2, initializers=[tensor]), "type of tensor 'held'", "'relu'", f"number {number}")


def test_empty_integer_matmuls_stay_on_the_host():
    made = integers()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    made.graph.output[0].type.tensor_type.ClearField("shape")
    network = lt.from_onnx(made)
    assert "i" not in network.found.layers
    assert lt.reference(network, {"x": np.zeros((0, 8), np.float32)})["y"].shape == (0, 0)
