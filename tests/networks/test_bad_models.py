"""Models that cannot be read: an error for each, without reading other files or allocating too much memory."""

import itertools
import os

import numpy as np
import onnx
import pytest
from error_checks import raises
from onnx import TensorProto, helper, numpy_helper
from qdq_models import QdqModel

import lathe as lt
from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.host_process import PROCESS


def refused(source, *mentions, **shapes) -> str:
    return str(raises(lt.ModelError, lt.from_onnx, source, shapes or None, kind="argument", mentions=mentions))


def relu(*dims, opset=17, initializers=()):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [value], [made], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_sources_that_are_no_models(tmp_path):
    refused(7, "from_onnx", 7)
    missing = tmp_path / "missing.onnx"
    refused(missing, repr(str(missing)), "no such file")
    long = "a" * 5000 + ".onnx"
    refused(long, repr(long), "no such file")
    damaged = tmp_path / "damaged.onnx"
    for content in (b"hello", relu(1, 2).SerializeToString()[:-7], b"\x00" * 100):
        damaged.write_bytes(content)
        refused(damaged, "damaged.onnx") if content[:1] == b"h" else refused(damaged)


def test_dynamic_shapes():
    refused(relu("n", 3), "'x'", "'relu'", "[n, 3]", "shapes={'x': [...]}", "--shape x=")
    for shape in ([2, 4], [2], [0, 3]):
        refused(relu("n", 3), "'x'", "'relu'", "[n, 3]", shape, x=shape)
    refused(relu("n", 3), "'relu'", "(x)", "'z'", z=[2, 3])
    assert lt.from_onnx(relu("n", 3), {"x": [2, 3]}).model.types["y"].shape == (2, 3)
    assert lt.from_onnx(relu(-1, 3), {"x": [2, 3]}).model.types["y"].shape == (2, 3)


def test_unknown_operators_and_opsets():
    refused(relu(1, 2, opset=9999), "opset 9999", "'relu'", onnx.defs.onnx_opset_version(), "'ai.onnx'")
    model = relu(1, 2)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 999))
    refused(model, "opset 999", "'relu'", "'ai.onnx.ml'")
    model = relu(1, 2)
    model.graph.node[0].op_type = "NoSuchOperator"
    refused(model, "'NoSuchOperator'", "node 'y'", "'relu'", "opset 17", "'ai.onnx'")


def test_models_that_are_not_valid():
    """The message has the error of ONNX's checker, with the node; outputs without shapes are valid."""
    choice = relu(1, 2, initializers=[numpy_helper.from_array(np.array(True), "flag")])
    choice.graph.node[0].CopyFrom(helper.make_node("If", ["flag"], ["y"], "choice"))
    choice.graph.output[0].type.tensor_type.ClearField("shape")
    twice = relu(1, 2)
    twice.graph.node.append(helper.make_node("Abs", ["x"], ["y"]))
    unknown = relu(1, 2)
    unknown.graph.node[0].input[0] = "q"
    old = relu(1, 2)
    old.ir_version = 9999
    errors = {
        "Required attribute 'else_branch' is missing. Context: Bad node spec for node. Name: choice OpType: If": choice,
        "Graph must be in single static assignment (SSA) form, however 'y' has been used as ": twice,
        "Nodes in a graph must be topologically sorted, however input 'q' of node:": unknown,
        "Your model ir_version 9999 is higher than the checker's": old,
        "The model does not have an ir_version set properly": onnx.ModelProto(),
    }
    for words, model in errors.items():
        assert words in refused(model, repr(model.graph.name or "model"))
    open_output = relu(1, 2)
    open_output.graph.output[0].type.tensor_type.ClearField("shape")
    assert lt.from_onnx(open_output).model.types["y"].shape == (1, 2)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_not_positive(scale):
    graph = QdqModel()
    made = graph.conv(graph.input(1, 3, 6, 6), 5, name="layer")
    model = graph.model(made)
    for each in model.graph.initializer:
        if each.name == model.graph.node[0].input[1]:
            each.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), each.name))
    network = lt.from_onnx(model)
    raises(lt.ModelError, network.build, lt.load_config("lathe16"), mentions=("scale", "'QuantizeLinear0'", scale))


def outside(location, shape=(16,), **more):
    """An initializer with external data."""
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


DATA = ("tensor 'w'", "model 'model.onnx'")


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "inner/../../secret.bin", "link.bin", "far/secret.bin", ""]
)
def test_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 64)
    path = written(tmp_path / "models", outside(location))
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (path.parent / "far").symlink_to(tmp_path)
    refused(path, *DATA, "folder", "link", repr(location))


def test_data_that_are_missing(tmp_path):
    path = written(tmp_path, outside("missing.bin"))
    refused(path, *DATA, "'missing.bin'", "exists")
    refused(onnx.load(path, load_external_data=False), "'w'", "'relu'", "ModelProto", "'missing.bin'", "path")
    os.mkfifo(tmp_path / "pipe.bin")
    refused(written(tmp_path, outside("pipe.bin")), *DATA, "'pipe.bin'", "exists")


@pytest.mark.parametrize(
    "more", [{}, {"offset": 8}, {"offset": -4}, {"length": 4}, {"length": "many"}, {"offset": 1 << 70, "length": 64}]
)
def test_data_that_are_too_short(tmp_path, more):
    (tmp_path / "w.bin").write_bytes(b"\x00" * 60)
    given = f"not {more.get('length', 64)} bytes at offset {more.get('offset', 0)}"
    refused(written(tmp_path, outside("w.bin", **more)), *DATA, "64 bytes", "'w.bin'", "60 bytes", given)


def test_data_in_another_file(tmp_path):
    (tmp_path / "w.bin").write_bytes(np.arange(17, dtype=np.float32).tobytes())
    assert output_of(written(tmp_path, outside("w.bin", offset=4))).tolist() == list(range(1, 17))


def test_models_larger_than_2_gib(tmp_path):
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(3 << 30)  # a sparse file
    path = written(tmp_path, outside("w.bin", shape=(3 << 28,)))
    size = path.stat().st_size + (3 << 30)
    refused(path, "'model.onnx'", "2 GiB", f"{size} bytes")


def test_data_whose_size_does_not_match_the_shape():
    held = numpy_helper.from_array(np.zeros(16, np.float32), "w")
    held.dims[:] = [1 << 40, 1 << 20]
    refused(relu(1, 16, initializers=[held]), "'w'", "'relu'", f"{1 << 62} bytes", [1 << 40, 1 << 20], "not 64")
    held.dims[:] = [3, 5]
    refused(relu(1, 16, initializers=[held]), "'w'", "'relu'", "60 bytes", [3, 5], "not 64")
    held.dims[:] = [-4, -4]
    refused(relu(1, 16, initializers=[held]), "'w'", "'relu'", "at least 0", [-4, -4])
    listed = helper.make_tensor("w", TensorProto.INT8, [4], [1, 2, 3, 4])
    listed.dims[:] = [1 << 40]
    refused(relu(1, 16, initializers=[listed]), "'w'", "'relu'", f"{1 << 40} values", [1 << 40], "not 4")
    inner = helper.make_node("Constant", [], ["c"], value=held)
    model = relu(1, 16)
    model.graph.node.insert(0, inner)
    refused(model, "tensor 'w'", "'relu'", [-4, -4])


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
def test_gigantic_lists_are_not_tracked(kind):
    """ONNX's shape inference would store each value of the list that a Gather reads."""
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
    mentions = ("tensor 't0'", "node 'layer'", f"at most {1 << 31} bytes", "'lathe16'", f"not {3 * side * side}")
    raises(lt.ModelError, network.build, lt.load_config("lathe16"), mentions=mentions)


def with_functions(**calls):
    """A model that calls its function F; each function calls others in sequence, and one that calls none is Relu."""
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
    refused(with_functions(F="F"), "'relu'", "recursive", "own:F -> own:F")
    shown = refused(with_functions(F="G", G="F"), "'relu'", "recursive")
    assert any(each in shown for each in ("own:F -> own:G -> own:F", "own:G -> own:F -> own:G"))


def test_functions_that_are_too_large_after_inlining():
    names = [chr(0x100 + n) for n in range(40)]
    calls = {name: behind * 2 for name, behind in zip(names, [*names[1:], ""], strict=True)}
    refused(with_functions(F=names[0] * 2, **calls), "'relu'", "at most 1000000 nodes", f"not {3 * 2**40 - 1}")
    assert lt.from_onnx(with_functions(F="GG", G="HH", H="")).model.types["y"].shape == (1, 2)


def test_shapes_that_disagree():
    nodes = [helper.make_node("Concat", ["x", "c"], ["y"], "joins", axis=1)]
    model = relu(1, 2, initializers=[numpy_helper.from_array(np.zeros((2, 2), np.float32), "c")])
    model.graph.node[0].CopyFrom(nodes[0])
    refused(model, "shapes", "'relu'", "node name: joins")


def doubled(times, more=0, inside=False):
    """A list of one number that nodes double ``times`` times, and then copy ``more`` times."""
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
        model.graph.input.append(helper.make_tensor_value_info("one", TensorProto.INT64, [1]))  # not constant
    model.graph.node.extend(nodes)
    return model


@pytest.mark.slow
def test_lists_that_have_more_values_than_memory_holds(monkeypatch):
    """Each list is short enough to be tracked, but all together exceed the memory limit."""
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.25")
    model = doubled(20, more=100)
    assert model.ByteSize() < 5000
    refused(model, "shape inference", "'relu'", "0.25 GiB", "LATHE_HOST_GIBIBYTES")


@pytest.mark.slow
def test_lists_that_take_too_long_to_follow(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "1")
    refused(doubled(20, more=1000), "shape inference", "'relu'", "1 seconds", "LATHE_HOST_SECONDS")


def test_lists_of_branches():
    """Values of lists that are too long for a shape are not tracked, also in branches."""
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
    refused(onnx.ModelProto(), "package 'onnx'", "No module named 'onnx'", "pip install 'lathe-npu[onnx]'")


def test_without_onnxruntime(monkeypatch):
    """The host worker reports the missing package."""
    monkeypatch.setattr(
        PROCESS, "ask", lambda *_: (host_worker.MISSING, "onnxruntime", "No module named 'onnxruntime'")
    )
    program = lt.from_onnx(relu(1, 2)).build(lt.load_config("lathe16"))
    mentions = ("package 'onnxruntime'", "No module named 'onnxruntime'", "pip install 'lathe-npu[onnx]'")
    raises(lt.ModelError, lt.simulate, program, {"x": np.zeros((1, 2), np.float32)}, mentions=mentions)


def test_data_in_a_file_with_two_hard_links(tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 64)
    path = written(tmp_path / "models", outside("hard.bin"))
    os.link(tmp_path / "secret.bin", path.parent / "hard.bin")
    refused(path, *DATA, "hard link", "'hard.bin'")


def test_data_in_an_impossible_file_name(tmp_path):
    path = written(tmp_path, outside("a\0b"))
    refused(path, *DATA, "zero byte", "'a\\x00b'")


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
    mentions = ("node 'layer'", "host CPU", "onnxruntime", "ONNX's evaluator")
    raises(lt.ModelError, lt.simulate, program, {"x": np.ones((1, 8, 5, 5), np.int8)}, mentions=mentions)
