"""Models that cannot be read: one clear error each, and nothing is read or allocated that should not be."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qdq_models import QdqModel

import lathe as lt


def refusal(source, **shapes) -> str:
    with pytest.raises(lt.ModelError) as error:
        lt.from_onnx(source, shapes or None)
    return str(error.value)


def relu(*dims, opset=17, initializers=()):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [value], [made], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_what_is_no_model(tmp_path):
    assert refusal(7) == "source of from_onnx must be a path or a ModelProto, not 7."
    missing = tmp_path / "missing.onnx"
    assert refusal(missing) == f"file of model must be one that there is, not {str(missing)!r}."
    long = "a" * 5000 + ".onnx"
    assert refusal(long) == f"file of model must be one that there is, not {long!r}."
    damaged = tmp_path / "damaged.onnx"
    for content in (b"hello", relu(1, 2).SerializeToString()[:-7], b"\x00" * 100):
        damaged.write_bytes(content)
        assert refusal(damaged).startswith(
            (f"file {str(damaged)!r} must be an ONNX model, and cannot be read: ", "model")
        )


def test_open_shapes():
    message = (
        "shape of input 'x' of model 'relu' must be known, not [n, 3]. Say it with shapes={'x': [...]}, or --shape "
        "x=... on the command line."
    )
    assert refusal(relu("n", 3)) == message
    assert refusal(relu("n", 3), x=[2, 4]) == "shape of input 'x' of model 'relu' must fit [n, 3], not [2, 4]."
    assert refusal(relu("n", 3), x=[2]) == "shape of input 'x' of model 'relu' must fit [n, 3], not [2]."
    assert refusal(relu("n", 3), x=[0, 3]) == "shape of input 'x' of model 'relu' must fit [n, 3], not [0, 3]."
    assert refusal(relu("n", 3), z=[2, 3]) == "shapes of model 'relu' must name inputs (x), not 'z'."
    assert lt.from_onnx(relu("n", 3), {"x": [2, 3]}).model.types["y"].shape == (2, 3)
    assert lt.from_onnx(relu(-1, 3), {"x": [2, 3]}).model.types["y"].shape == (2, 3)


def test_unknown_operators_and_opsets():
    newest = onnx.defs.onnx_opset_version()
    assert refusal(relu(1, 2, opset=9999)) == (
        f"opset of model 'relu' must be at most {newest}, the newest that package onnx knows, not 9999. Install a "
        "newer one."
    )
    model = relu(1, 2)
    model.graph.node[0].op_type = "NoSuchOperator"
    assert "must be valid ONNX, and is not" in refusal(model)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_no_positive_numbers(scale):
    graph = QdqModel()
    made = graph.conv(graph.input(1, 3, 6, 6), 5, name="layer")
    model = graph.model(made)
    for each in model.graph.initializer:
        if each.name == model.graph.node[0].input[1]:
            each.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), each.name))
    network = lt.from_onnx(model)
    with pytest.raises(lt.ModelError, match="scale of node 'QuantizeLinear0' must be a positive number, not "):
        network.build(lt.load_config("lathe16"))


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "missing.bin"])
def test_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 64)
    held = numpy_helper.from_array(np.zeros(16, np.float32), "w")
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    held.external_data.add(key="location", value=location)
    model = relu(1, 16, initializers=[held])
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    assert refusal(folder / "model.onnx").startswith(f"file {str(folder / 'model.onnx')!r} must be an ONNX model, and")


def test_gigantic_shapes_allocate_nothing():
    network = lt.from_onnx(relu(1 << 20, 1 << 20))
    assert network.model.types["y"].shape == (1 << 20, 1 << 20)


def test_shapes_that_disagree():
    graph = QdqModel()
    data = graph.input(1, 3, 6, 6)
    model = graph._model([graph.node("Concat", data, graph.input(1, 3, 5, 6, name="y"), axis=1)])
    assert "must agree, and do not" in refusal(model) or "must be valid ONNX" in refusal(model)


def test_without_the_package(monkeypatch):
    import lathe.frontend.onnx.extra as extra

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extra, "import_module", missing)
    assert refusal(onnx.ModelProto()) == (
        "package 'onnx' must be there to read ONNX models, and cannot be imported: No module named 'onnx'. Install it "
        "with: pip install 'lathe-npu[onnx]'."
    )
