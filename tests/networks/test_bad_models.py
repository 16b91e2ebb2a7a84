"""Models that cannot be read: one clear error each, and nothing is read or allocated that should not be."""

import itertools
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qdq_models import QdqModel

import lathe as lt
from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.host_process import PROCESS


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
        f"opset 9999 of model 'relu' must be at most {newest}, the newest of domain 'ai.onnx' that package onnx knows. "
        "Install a newer one."
    )
    model = relu(1, 2)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 999))
    assert refusal(model).startswith("opset 999 of model 'relu' must be at most ")
    model = relu(1, 2)
    model.graph.node[0].op_type = "NoSuchOperator"
    assert refusal(model) == (
        "operator of node 'y' of model 'relu' must be one that opset 17 of domain 'ai.onnx' has, not 'NoSuchOperator'."
    )


def test_models_that_are_not_valid():
    """What ONNX's checker says is told, with the node; open shapes of outputs are nothing wrong."""
    choice = relu(1, 2, initializers=[numpy_helper.from_array(np.array(True), "flag")])
    choice.graph.node[0].CopyFrom(helper.make_node("If", ["flag"], ["y"], "choice"))
    choice.graph.output[0].type.tensor_type.ClearField("shape")
    twice = relu(1, 2)
    twice.graph.node.append(helper.make_node("Abs", ["x"], ["y"]))
    unknown = relu(1, 2)
    unknown.graph.node[0].input[0] = "q"
    old = relu(1, 2)
    old.ir_version = 9999
    told = {
        "Required attribute 'else_branch' is missing. Context: Bad node spec for node. Name: choice OpType: If": choice,
        "Graph must be in single static assignment (SSA) form, however 'y' has been used as ": twice,
        "Nodes in a graph must be topologically sorted, however input 'q' of node:": unknown,
        "Your model ir_version 9999 is higher than the checker's": old,
        "The model does not have an ir_version set properly": onnx.ModelProto(),
    }
    for words, model in told.items():
        assert refusal(model).startswith(
            f"model {model.graph.name or 'model'!r} must be valid ONNX, and is not: {words}"
        )
    open_output = relu(1, 2)
    open_output.graph.output[0].type.tensor_type.ClearField("shape")
    assert lt.from_onnx(open_output).model.types["y"].shape == (1, 2)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_no_positive_numbers(scale):
    graph = QdqModel()
    made = graph.conv(graph.input(1, 3, 6, 6), 5, name="layer")
    model = graph.model(made)
    for each in model.graph.initializer:
        if each.name == model.graph.node[0].input[1]:
            each.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), each.name))
    network = lt.from_onnx(model)
    with pytest.raises(lt.ModelError) as error:
        network.build(lt.load_config("lathe16"))
    assert str(error.value) == f"scale of node 'QuantizeLinear0' must be a positive number, not {scale}."


def outside(location, shape=(16,), **more):
    """An initializer whose data are in another file."""
    held = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        held.external_data.add(key=key, value=str(value))
    return held


def with_output(*initializers):
    """A model with initializers that are outputs."""
    model = relu(1, 16, initializers=initializers)
    for each in initializers:
        model.graph.output.append(helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    return model


def output_of(source):
    program = lt.from_onnx(source).build(lt.load_config("lathe16"))
    return lt.simulate(program, {"x": np.zeros((1, 16), np.float32)}).outputs["w"]


def written(folder, *initializers):
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(with_output(*initializers).SerializeToString())
    return folder / "model.onnx"


DATA = "data of tensor 'w' of model 'model.onnx' must be"


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "inner/../../secret.bin", "link.bin", "far/secret.bin", ""]
)
def test_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 64)
    path = written(tmp_path / "models", outside(location))
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (path.parent / "far").symlink_to(tmp_path)
    assert refusal(path) == f"{DATA} in a file of the model's folder that is no link, not in {location!r}."


def test_data_that_are_missing(tmp_path):
    path = written(tmp_path, outside("missing.bin"))
    assert refusal(path) == f"{DATA} in a file that there is, not in 'missing.bin'."
    assert refusal(onnx.load(path, load_external_data=False)) == (
        "data of tensor 'w' of model 'relu' must be in the model, not in file 'missing.bin'. Give the path of the "
        "model instead."
    )
    os.mkfifo(tmp_path / "pipe.bin")
    assert refusal(written(tmp_path, outside("pipe.bin"))) == f"{DATA} in a file that there is, not in 'pipe.bin'."


@pytest.mark.parametrize(
    "more", [{}, {"offset": 8}, {"offset": -4}, {"length": 4}, {"length": "many"}, {"offset": 1 << 70, "length": 64}]
)
def test_data_that_are_too_short(tmp_path, more):
    (tmp_path / "w.bin").write_bytes(b"\x00" * 60)
    told = more.get("length", 64) if more.get("length") != "many" else "many"
    assert refusal(written(tmp_path, outside("w.bin", **more))) == (
        f"{DATA} 64 bytes from an offset within file 'w.bin' of 60 bytes on, not {told} bytes from offset "
        f"{more.get('offset', 0)} on."
    )


def test_data_in_another_file(tmp_path):
    (tmp_path / "w.bin").write_bytes(np.arange(17, dtype=np.float32).tobytes())
    assert output_of(written(tmp_path, outside("w.bin", offset=4))).tolist() == list(range(1, 17))


def test_more_data_than_a_model_takes(tmp_path):
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(3 << 30)  # a hole, of which nothing is read
    path = written(tmp_path, outside("w.bin", shape=(3 << 28,)))
    size = path.stat().st_size + (3 << 30)
    assert refusal(path) == f"model 'model.onnx' must take less than 2 GiB with its data, not {size} bytes."


def test_data_that_are_not_as_many_as_their_shape_says():
    held = numpy_helper.from_array(np.zeros(16, np.float32), "w")
    held.dims[:] = [1 << 40, 1 << 20]
    message = "tensor 'w' of model 'relu' must hold {} bytes, as its shape {} says, not 64."
    assert refusal(relu(1, 16, initializers=[held])) == message.format(1 << 62, [1 << 40, 1 << 20])
    held.dims[:] = [3, 5]
    assert refusal(relu(1, 16, initializers=[held])) == message.format(60, [3, 5])
    held.dims[:] = [-4, -4]
    assert refusal(relu(1, 16, initializers=[held])) == (
        "shape of tensor 'w' of model 'relu' must have sizes of at least 0, not [-4, -4]."
    )
    listed = helper.make_tensor("w", TensorProto.INT8, [4], [1, 2, 3, 4])
    listed.dims[:] = [1 << 40]
    assert refusal(relu(1, 16, initializers=[listed])) == (
        "tensor 'w' of model 'relu' must hold 1099511627776 values, as its shape [1099511627776] says, not 4."
    )
    inner = helper.make_node("Constant", [], ["c"], value=held)
    model = relu(1, 16)
    model.graph.node.insert(0, inner)
    assert refusal(model).startswith("shape of tensor 'w' of model 'relu' must have")


@pytest.mark.parametrize("kind", [each for each in TensorProto.DataType.values() if each])
def test_tensors_of_every_type_are_read(kind):
    values = np.arange(1, 6).astype(helper.tensor_dtype_to_np_dtype(kind))
    if kind == TensorProto.STRING:
        values = np.array(["a", "b", "", "d", "e"], object)
    assert output_of(with_output(numpy_helper.from_array(values, "w"))).tolist() == values.tolist()


def test_gigantic_shapes_allocate_nothing():
    network = lt.from_onnx(relu(1 << 20, 1 << 20))
    assert network.model.types["y"].shape == (1 << 20, 1 << 20)


@pytest.mark.parametrize("kind", ["declared", "made"])
def test_gigantic_lists_are_not_looked_through(kind):
    """ONNX's inference of values holds one for each index of what a Gather reads."""
    model = relu(1, 2, initializers=[numpy_helper.from_array(np.array(0), "zero")])
    numbers = [numpy_helper.from_array(np.array(each), name) for name, each in (("b", 0), ("e", 1 << 40), ("d", 1))]
    if kind == "declared":
        model.graph.input.append(helper.make_tensor_value_info("long", TensorProto.INT64, [1 << 40]))
    else:
        model.graph.initializer.extend(numbers)
        model.graph.node.append(helper.make_node("Range", ["b", "e", "d"], ["long"]))
    model.graph.node.append(helper.make_node("Gather", ["long", "zero"], ["first"]))
    model.graph.output.append(helper.make_tensor_value_info("first", TensorProto.INT64, []))
    assert lt.from_onnx(model).model.types["long"].shape == (1 << 40,)


@pytest.mark.parametrize("side", [1 << 20, 1 << 30])
def test_tensors_larger_than_the_address_space(side):
    graph = QdqModel()
    network = lt.from_onnx(graph.model(graph.conv(graph.input(1, 3, side, side), 5, name="layer")))
    with pytest.raises(lt.ModelError) as error:
        network.build(lt.load_config("lathe16"))
    assert str(error.value) == (
        f"tensor 't0' of node 'layer' must take at most 2147483648 bytes, as much as machine 'lathe16' can name, "
        f"not {3 * side * side}."
    )


def with_functions(**calls):
    """A model that calls its function F; each calls others one behind the other, and one that calls none is Relu."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for name, called in calls.items():
        steps = [f"t{n}" for n in range(max(len(called) - 1, 0))]
        nodes = [helper.make_node(each, [before], [behind], domain="own")
                 for each, before, behind in zip(called, ["a", *steps], [*steps, "b"], strict=False)]  # fmt: skip
        nodes = nodes or [helper.make_node("Relu", ["a"], ["b"])]
        functions.append(helper.make_function("own", name, ["a"], ["b"], nodes, opsets))
    model = relu(1, 2)
    model.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="own"))
    model.functions.extend(functions)
    model.opset_import.append(opsets[1])
    return model


def test_functions_that_call_themselves():
    message = "functions of model 'relu' must not call themselves, as in {}."
    assert refusal(with_functions(F="F")) == message.format("own:F -> own:F")
    assert refusal(with_functions(F="G", G="F")) in {
        message.format(each) for each in ("own:F -> own:G -> own:F", "own:G -> own:F -> own:G")
    }


def test_functions_that_stand_for_more_than_anybody_writes():
    names = [chr(0x100 + n) for n in range(40)]
    calls = {name: behind * 2 for name, behind in zip(names, [*names[1:], ""], strict=True)}
    assert refusal(with_functions(F=names[0] * 2, **calls)) == (
        f"model 'relu' must have at most 1000000 nodes where functions stand for theirs, not {3 * 2**40 - 1}."
    )
    assert lt.from_onnx(with_functions(F="GG", G="HH", H="")).model.types["y"].shape == (1, 2)


def test_shapes_that_disagree():
    nodes = [helper.make_node("Concat", ["x", "c"], ["y"], "joins", axis=1)]
    model = relu(1, 2, initializers=[numpy_helper.from_array(np.zeros((2, 2), np.float32), "c")])
    model.graph.node[0].CopyFrom(nodes[0])
    found = refusal(model)
    assert found.startswith("shapes of model 'relu' must agree, and do not: ")
    assert "node name: joins" in found


def doubled(times, more=0, inside=False):
    """A list of one number, doubled again and again, and copied: each is a line of the model."""
    names = ["one", *(f"d{n}" for n in range(times))]
    nodes = [helper.make_node("Concat", [name, name], [made], axis=0) for name, made in itertools.pairwise(names)]
    nodes += [helper.make_node("Concat", [names[-1]], [f"c{n}"], axis=0) for n in range(more)]
    model = relu(1, 2, initializers=[numpy_helper.from_array(np.array([1]), "one")])
    if inside:
        made = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
        nodes.append(helper.make_node("ConstantOfShape", [names[-1]], ["b"]))
        body = helper.make_graph(nodes, "body", [], [made])
        other = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "other", [], [made])
        nodes = [helper.make_node("If", ["which"], ["large"], then_branch=body, else_branch=other)]
        model.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    else:
        model.graph.input.append(helper.make_tensor_value_info("one", TensorProto.INT64, [1]))  # and so no constant
    model.graph.node.extend(nodes)
    return model


def test_lists_that_have_more_values_than_memory_holds(monkeypatch):
    """No list is too long for a shape, and all of them together are: their values are followed within limits."""
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.25")
    model = doubled(20, more=100)
    assert model.ByteSize() < 5000
    assert refusal(model) == (
        "shape inference of model 'relu' must take at most 0.25 GiB of memory, and asks for more. Set "
        "LATHE_HOST_GIBIBYTES to allow more."
    )


def test_lists_that_take_too_long_to_follow(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "1")
    assert refusal(doubled(20, more=1000)) == (
        "shape inference of model 'relu' must end within 1 seconds, and does not. Set LATHE_HOST_SECONDS to allow more."
    )


def test_lists_of_branches():
    """Values of lists are not followed that are too long for a shape, wherever they are."""
    network = lt.from_onnx(doubled(40, inside=True))
    assert network.model.types["y"].shape == (1, 2)


def test_large_constants_do_not_go_to_shape_inference(monkeypatch):
    sent = []
    ask = PROCESS.call
    monkeypatch.setattr(PROCESS, "call", lambda *request: sent.append(len(request[2]["model"])) or ask(*request))
    graph = QdqModel(seed=1)
    made = graph.conv(graph.input(1, 64, 4, 4), 128)
    network = lt.from_onnx(graph.model(made))
    assert network.model.types[made].shape == (1, 128, 2, 2)
    assert max(sent) < 10_000
    assert sum(each.ByteSize() for each in network.model.initializers.values()) > 64 * 128 * 9


def test_without_the_package(monkeypatch):
    import lathe.frontend.onnx.optional_imports as extra

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extra, "import_module", missing)
    assert refusal(onnx.ModelProto()) == (
        "package 'onnx' must be there to read ONNX models, and cannot be imported: No module named 'onnx'. Install it "
        "with: pip install 'lathe-npu[onnx]'."
    )


def test_without_onnxruntime(monkeypatch):
    """The host's process says that it is not there."""
    monkeypatch.setattr(
        PROCESS, "ask", lambda *_: (host_worker.MISSING, "onnxruntime", "No module named 'onnxruntime'")
    )
    program = lt.from_onnx(relu(1, 2)).build(lt.load_config("lathe16"))
    with pytest.raises(lt.ModelError) as error:
        lt.simulate(program, {"x": np.zeros((1, 2), np.float32)})
    assert str(error.value) == (
        "package 'onnxruntime' must be there to read ONNX models, and cannot be imported: No module named "
        "'onnxruntime'. Install it with: pip install 'lathe-npu[onnx]'."
    )


def test_data_in_a_file_of_two_names(tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 64)
    path = written(tmp_path / "models", outside("hard.bin"))
    os.link(tmp_path / "secret.bin", path.parent / "hard.bin")
    assert refusal(path) == (
        f"{DATA} in a file that has no other name, not in 'hard.bin', which has a second hard link. Copy the file."
    )


def test_data_in_a_file_that_no_file_can_be(tmp_path):
    path = written(tmp_path, outside("a\0b"))
    assert refusal(path) == f"{DATA} in a file whose name has no zero byte, not in 'a\\x00b'."


def test_weights_of_an_integer_convolution_that_do_not_fit_its_data():
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"], "layer")],
        "unfit",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 8, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.ones((4, 3, 3, 3), np.int8), "w")],
    )
    network = lt.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    program = network.build(lt.load_config("lathe16"), cache=False)
    with pytest.raises(lt.ModelError) as error:
        lt.simulate(program, {"x": np.ones((1, 8, 5, 5), np.int8)})
    assert str(error.value).startswith(
        "node 'layer' on the host must be computed by onnxruntime or ONNX's evaluator, and is by neither. "
    )
