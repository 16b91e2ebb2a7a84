"""Simplification of models before matching does not change any bit of the host CPU's results."""

import numpy as np
import onnx
import pytest
from error_checks import raises
from networks_checking import LATHE16, checked, random_inputs, where, with_onnxruntime
from onnx import TensorProto, helper, numpy_helper
from qdq_models import QdqModel

import lathe as lt
from lathe.frontend.onnx import fold_constants
from lathe.frontend.onnx.reading import read_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, *shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes, held=None, shape=(2, 3, 4), outputs=("y",), opset=17, functions=(), domains=()):
    """A model with an input ``x``, and outputs of any shape."""
    graph = helper.make_graph(
        nodes, "model", [info("x", *shape)],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in (held or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))


def nodes_left(model):
    """The operators after simplification; asserts that outputs equal onnxruntime's bit by bit."""
    network = lt.from_onnx(model)
    inputs = random_inputs(model)
    result = lt.simulate(network.build(LATHE16), inputs)
    for each, expected in zip(model.graph.output, with_onnxruntime(model, inputs), strict=True):
        assert np.array_equal(result.outputs[each.name], expected)
    return [node.op_type for node in network.model.nodes]


def branch(name, *nodes, held=(), outputs=("r",)):
    values = [info(each, 2, 3, 4) for each in outputs]
    return helper.make_graph(list(nodes), name, [], values, [numpy_helper.from_array(v, n) for n, v in held])


def test_shape_arithmetic():
    """As exporters express the flattening of all but the first dimension."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Gather", ["shape", "zero"], ["first"]),
        helper.make_node("Constant", [], ["axes"], value_ints=[0]),
        helper.make_node("Unsqueeze", ["first", "axes"], ["column"]),
        helper.make_node("Constant", [], ["rest"], value=numpy_helper.from_array(np.array([-1]))),
        helper.make_node("Concat", ["column", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["flat"], "flatten"),
        helper.make_node("Relu", ["flat"], ["y"], "relu"),
    ]
    model = made(nodes)
    assert nodes_left(model) == ["Reshape", "Relu"]
    network = lt.from_onnx(model)
    assert [node.name for node in network.model.nodes] == ["flatten", "relu"]
    assert network.model.types["y"].shape == (2, 12)


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -2, "end": -1}, {"start": -9, "end": 9}, {"start": 3}])
def test_slices_of_shapes(bounds):
    nodes = [helper.make_node("Shape", ["x"], ["s"], **bounds), helper.make_node("Size", ["x"], ["n"]),
             helper.make_node("Mul", ["s", "n"], ["t"]), helper.make_node("Cast", ["t"], ["f"], to=FLOAT),
             helper.make_node("ReduceSum", ["f"], ["g"], keepdims=0),
             helper.make_node("Add", ["x", "g"], ["y"])]  # fmt: skip
    assert nodes_left(made(nodes)) == ["Add"]


def test_constants_of_every_kind():
    texts = [helper.make_node("Constant", [], ["a"], value_floats=[0.5, 2.0]),
             helper.make_node("Constant", [], ["b"], value_float=0.25),
             helper.make_node("Constant", [], ["w"], value_strings=["a", "b"]),
             helper.make_node("Constant", [], ["v"], value_string="b"),
             helper.make_node("Equal", ["w", "v"], ["same"]),
             helper.make_node("Where", ["same", "a", "b"], ["c"]),
             helper.make_node("Add", ["x", "c"], ["y"])]  # fmt: skip
    assert nodes_left(made(texts, shape=(3, 2), opset=19)) == ["Add"]
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2.0], np.float32), "values"), numpy_helper.from_array(np.array([1])), [3]
    )
    nodes = [helper.make_node("Constant", [], ["s"], sparse_value=sparse), helper.make_node("Add", ["x", "s"], ["y"])]
    assert nodes_left(made(nodes, shape=(2, 3))) == ["Constant", "Add"]


def test_sparse_constants_are_dense_when_they_are_computed():
    def sparse(size):
        values = numpy_helper.from_array(np.array([2.0], np.float32), "s")
        return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1])), [size])

    model = made([helper.make_node("Add", ["x", "s"], ["y"])], shape=(2, 3))
    model.graph.sparse_initializer.append(sparse(3))
    assert nodes_left(model) == ["Constant", "Add"]
    model.graph.sparse_initializer[0].CopyFrom(sparse(1 << 50))
    model.graph.node[0].CopyFrom(helper.make_node("ReduceMax", ["s"], ["y"]))
    program = lt.from_onnx(model).build(LATHE16)
    raises(lt.ModelError, lt.simulate, program, random_inputs(model), mentions=("node 's'", "host CPU"))


def test_large_results_are_not_folded():
    nodes = [helper.make_node("ConstantOfShape", ["sizes"], ["ones"], "large"),
             helper.make_node("ReduceMax", ["ones"], ["most"], keepdims=0),
             helper.make_node("Add", ["x", "most"], ["y"])]  # fmt: skip
    assert nodes_left(made(nodes, {"sizes": np.array([1 << 10])})) == ["Add"]
    assert nodes_left(made(nodes, {"sizes": np.array([1 << 20])})) == ["ConstantOfShape", "ReduceMax", "Add"]
    network = lt.from_onnx(made(nodes, {"sizes": np.array([1 << 40])}))
    program, inputs = network.build(LATHE16), {"x": np.zeros((2, 3, 4), np.float32)}
    raises(lt.ModelError, lt.simulate, program, inputs, mentions=("node 'large'", "host CPU", "4 GiB"))


def test_large_constants_may_be_transposed():
    held = np.random.default_rng(0).standard_normal((700, 600)).astype(np.float32)
    assert held.nbytes > fold_constants.SMALL
    nodes = [helper.make_node("Transpose", ["c"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
    assert nodes_left(made(nodes, {"c": held}, shape=(600, 1))) == ["Add"]


@pytest.mark.parametrize("shape", [(30, 20), (700, 600)])
def test_float_weights_are_not_folded(shape):
    """onnxruntime packs constant weights, and then adds in another order."""
    weights = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    nodes = [helper.make_node("Neg", ["w"], ["n"]), helper.make_node("Transpose", ["n"], ["t"]),
             helper.make_node("MatMul", ["x", "t"], ["y"])]  # fmt: skip
    assert nodes_left(made(nodes, {"w": weights}, shape=(2, shape[1]))) == ["Transpose", "MatMul"]


def test_failing_and_random_nodes_are_not_folded():
    nodes = [helper.make_node("Gather", ["c", "far"], ["g"], "fails"),
             helper.make_node("Neg", ["c"], ["n"]),
             helper.make_node("Add", ["x", "n"], ["y"]),
             helper.make_node("Mul", ["x", "g"], ["z"], "uses")]  # fmt: skip
    held = {"c": np.ones(4, np.float32), "far": np.array(9)}
    model = read_model(made(nodes, held, outputs=("y", "z")))
    assert [node.op_type for node in model.nodes] == ["Gather", "Add", "Mul"]
    random = [helper.make_node("RandomNormal", [], ["r"], shape=[4]), helper.make_node("Add", ["x", "r"], ["y"])]
    assert [node.op_type for node in read_model(made(random)).nodes] == ["RandomNormal", "Add"]


@pytest.mark.parametrize("flag", [True, False])
def test_branches_of_constant_conditions(flag):
    """A branch with names that are taken, constants of its own, and a captured tensor as an output."""
    held = [("k", np.array(3, np.float32))]
    first = branch("first", helper.make_node("Add", ["x", "k"], ["r"], "adds"),
                   helper.make_node("Identity", ["x"], ["q"]), held=held, outputs=("r", "q"))  # fmt: skip
    other = branch("other", helper.make_node("Mul", ["x", "k"], ["r"], "multiplies"),
                   helper.make_node("Neg", ["r"], ["q"], "turns"), held=held, outputs=("q", "r"))  # fmt: skip
    nodes = [helper.make_node("Greater", ["flag", "zero"], ["condition"]),
             helper.make_node("If", ["condition"], ["a", "b"], "chooses", then_branch=first, else_branch=other),
             helper.make_node("Sub", ["a", "b"], ["d"]), helper.make_node("Div", ["d", "c"], ["chooses/k"]),
             helper.make_node("Abs", ["chooses/k"], ["y"])]  # fmt: skip
    values = {"flag": np.array(float(flag), np.float32), "zero": np.zeros((), np.float32), "c": np.array(2, np.float32)}
    model = made(nodes, values)
    assert nodes_left(model) == [*(["Add"] if flag else ["Mul", "Neg"]), "Sub", "Div", "Abs"]
    names = [node.name for node in read_model(model).nodes]
    assert names[: 1 if flag else 2] == (["adds"] if flag else ["multiplies", "turns"])


def test_branches_in_branches_and_in_bodies_of_loops():
    inner = branch("inner", helper.make_node("Neg", ["p"], ["r"]))
    no = branch("no", helper.make_node("Abs", ["p"], ["r"]))
    outer = branch("outer", helper.make_node("Relu", ["x"], ["p"]),
                   helper.make_node("If", ["yes"], ["s"], then_branch=inner, else_branch=no),
                   outputs=("s",))  # fmt: skip
    empty = branch("empty", helper.make_node("Identity", ["x"], ["r"]))
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "y1"], ["w"]), helper.make_node("Identity", ["go"], ["go2"])], "body",
        [info("i", kind=INT64), info("go", kind=BOOL), info("v", 2, 3, 4)],
        [info("go2", kind=BOOL), info("w", 2, 3, 4)],
    )  # fmt: skip
    nodes = [helper.make_node("If", ["yes"], ["y0"], then_branch=outer, else_branch=empty),
             helper.make_node("Identity", ["y0"], ["y1"]),
             helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body)]  # fmt: skip
    held = {"yes": np.array(True), "count": np.array(3)}
    assert nodes_left(made(nodes, held)) == ["Relu", "Neg", "Loop"]


def test_copies():
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Dropout", ["a", "ratio", "no"], ["b"]),
             helper.make_node("Identity", ["b"], ["c"]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Identity", ["d"], ["y"])]  # fmt: skip
    held = {"ratio": np.array(0.5, np.float32), "no": np.array(False)}
    assert nodes_left(made(nodes, held)) == ["Relu", "Identity"]
    masked = [helper.make_node("Dropout", ["x"], ["y", "mask"]), helper.make_node("Cast", ["mask"], ["z"], to=FLOAT)]
    assert nodes_left(made(masked, outputs=("y", "z"))) == ["Dropout", "Cast"]
    learnt = [helper.make_node("Dropout", ["x", "ratio", "yes"], ["a"], seed=1), helper.make_node("Abs", ["a"], ["y"])]
    model = read_model(made(learnt, {"ratio": np.array(0.5, np.float32), "yes": np.array(True)}))
    assert [node.op_type for node in model.nodes] == ["Dropout", "Abs"]


def test_outputs_that_are_constants_or_inputs():
    nodes = [helper.make_node("Neg", ["c"], ["d"]), helper.make_node("Constant", [], ["k"], value_floats=[1.0])]
    model = made(nodes, {"c": np.ones(3, np.float32)}, outputs=("c", "d", "k", "x"))
    assert nodes_left(model) == ["Neg", "Constant", "Identity"]


def test_functions_of_the_model():
    double = helper.make_function(
        "own", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"], "adds")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [helper.make_node("Double", ["x"], ["d"], domain="own"),
             helper.make_node("Double", ["d"], ["y"], domain="own")]  # fmt: skip
    assert nodes_left(made(nodes, functions=[double], domains=["own"])) == ["Add", "Add"]


def test_values_that_are_checked_more_strictly_if_known_stay_unknown():
    """Range accepts a 1-D bound unless its shape is known before it runs; a branch hides the shape."""
    first = helper.make_node("Shape", ["x"], ["r"], start=0, end=1)
    open_shape = helper.make_tensor_value_info("r", INT64, None)
    listed = [helper.make_graph([first], name, [], [open_shape]) for name in ("yes", "no")]
    nodes = [helper.make_node("If", ["flag"], ["n"], then_branch=listed[0], else_branch=listed[1]),
             helper.make_node("Range", ["zero", "n", "one"], ["r"]), helper.make_node("Neg", ["zero"], ["none"]),
             helper.make_node("Add", ["r", "none"], ["s"]), helper.make_node("Cast", ["s"], ["f"], to=FLOAT),
             helper.make_node("Add", ["x", "f"], ["y"])]  # fmt: skip
    held = {"zero": np.array(0), "one": np.array(1), "flag": np.array(True)}
    assert nodes_left(made(nodes, held, shape=(3,))) == ["Shape", "Range", "Add", "Cast", "Add"]


def test_layers_after_folded_nodes():
    """Float weights that are quantised by nodes, computed scales, and a branch and an Identity in between."""
    graph = QdqModel(seed=1)
    data = graph.input(1, 6, 5, 7)
    weights = graph.constant(graph.random.uniform(-0.5, 0.5, (9, 6, 3, 3)).astype(np.float32))
    scale = graph.node("Constant", value=numpy_helper.from_array(np.array(0.004, np.float32)))
    zero = graph.node("Constant", value=numpy_helper.from_array(np.array(0, np.int8)))
    held = graph.node("DequantizeLinear", graph.node("QuantizeLinear", weights, scale, zero), scale, zero)
    sums = graph.node("Conv", graph.node("Identity", data), held, name="layer", pads=[1, 1, 1, 1])
    result = checked(graph.model(graph.quantised(sums, 0.1, 0)), units={f"t{len(graph.nodes) - 1}": 0.1})
    assert where(result)["layer"] == "npu"


def test_unordered_nodes_and_nodes_that_depend_on_themselves():
    nodes = [helper.make_node("Abs", ["a"], ["y"], "second"), helper.make_node("Relu", ["x"], ["a"], "first")]
    assert nodes_left(made(nodes)) == ["Relu", "Abs"]
    nodes[1].input[0] = "y"
    raises(lt.ModelError, lt.from_onnx, made(nodes), mentions=("not valid ONNX",))


def test_the_given_model_is_not_changed():
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Reshape", ["x", "s"], ["y"])]
    model = made(nodes)
    before = model.SerializeToString()
    read = read_model(model)
    assert model.SerializeToString() == before
    assert [node.op_type for node in read.original.graph.node] == ["Shape", "Reshape"]
    onnx.checker.check_model(read.proto)
