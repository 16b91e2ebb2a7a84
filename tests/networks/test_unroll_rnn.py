"""Unrolled recurrent nodes give the results of onnxruntime's own nodes."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from error_checks import check_mentions
from random_onnx import random_floats
from recurrent_models import GATES, RecurrentModel

import lathe as lt
from lathe.frontend.onnx.reading import read_model
from lathe.frontend.onnx.unroll_rnn import unrolled


def with_onnxruntime(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def kinds(model):
    return [node.op_type for node in model.graph.node]


def check_alike(model, run=with_onnxruntime, **inputs):
    """The unrolled model; asserts that all nodes are unrolled, that it is valid, and that its outputs are the same."""
    found = unrolled(read_model(model))
    assert found.not_unrolled == {}
    onnx.checker.check_model(found.proto, full_check=True)
    assert not {*kinds(found.proto)} & {*GATES}
    inputs = random_floats(model, seed=1) | inputs
    for made, expected in zip(with_onnxruntime(found.proto, inputs), run(model, inputs), strict=True):
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, rtol=0, atol=2e-6)
    return found.proto


@pytest.mark.sample(4)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_all_outputs_are_the_nodes(kind, direction):
    resets = (0, 1) if kind == "GRU" else (None,)
    for initial, bias, reset in itertools.product((None, "constant", "input"), (True, False), resets):
        attributes = {} if reset is None else {"linear_before_reset": reset}
        graph = RecurrentModel()
        outputs = graph.recurrent(kind, graph.input(5, 2, 3), 4, direction, initial=initial, bias=bias, **attributes)
        check_alike(graph.model(*outputs))


def test_one_step_and_one_sequence():
    for kind, steps, batch in itertools.product(GATES, (1, 3), (1, 2)):
        graph = RecurrentModel()
        check_alike(graph.model(*graph.recurrent(kind, graph.input(steps, batch, 3), 4, "bidirectional")))


def test_batches_first():
    for kind, direction, initial in itertools.product(GATES, ("forward", "bidirectional"), (None, "constant", "input")):
        graph = RecurrentModel()
        made = graph.recurrent(kind, graph.input(2, 5, 3), 4, direction, initial=initial, layout=1)
        # onnxruntime does not support the layout: compared without it.
        plain = RecurrentModel()
        turned = plain.model(*plain.recurrent(kind, plain.input(5, 2, 3), 4, direction, initial=initial))
        check_alike(graph.model(*made), lambda _, inputs, plain=turned: by_turning(plain, inputs))


def by_turning(plain, inputs):
    given = {name: np.ascontiguousarray(values.swapaxes(0, 1)) for name, values in inputs.items()}
    every, *lasts = with_onnxruntime(plain, given)
    return [every.transpose(2, 0, 1, 3), *(each.swapaxes(0, 1) for each in lasts)]


def test_activations_without_parameters():
    for kind, names in (("LSTM", ["sigmoid", "Relu", "Softsign"]), ("GRU", ["Sigmoid", "Relu"]), ("RNN", ["Relu"])):
        graph = RecurrentModel()
        outputs = graph.recurrent(kind, graph.input(4, 2, 3), 4, "bidirectional", activations=[*names, *names])
        check_alike(graph.model(*outputs))


@pytest.mark.parametrize("initial", [None, "input"])
@pytest.mark.parametrize("kind", GATES)
def test_clips_of_activations(kind, initial):
    for reset in (0, 1) if kind == "GRU" else (None,):
        attributes = {} if reset is None else {"linear_before_reset": reset}
        graph = RecurrentModel()
        data = graph.input(5, 2, 3)
        check_alike(
            graph.model(*graph.recurrent(kind, data, 4, "bidirectional", initial=initial, clip=0.2, **attributes))
        )


@pytest.mark.parametrize("initial", [None, "constant", "input"])
def test_forget_gates_that_the_input_gates_are(initial):
    for attributes in ({}, {"clip": 0.2}):
        graph = RecurrentModel()
        made = graph.recurrent(
            "LSTM", graph.input(5, 2, 3), 4, "bidirectional", initial=initial, input_forget=1, **attributes
        )
        check_alike(graph.model(*made))


def test_lengths_and_peepholes_without_effect():
    graph = RecurrentModel()
    data = graph.input(4, 2, 3)
    lengths, peepholes = np.array([4, 4], np.int32), np.zeros((1, 12), np.float32)
    check_alike(graph.model(*graph.recurrent("LSTM", data, 4, lengths=lengths, peepholes=peepholes)))


def test_weights_are_shared_and_the_input_has_one_gemm():
    graph = RecurrentModel()
    proto = check_alike(graph.model(*graph.recurrent("LSTM", graph.input(6, 2, 3), 4)))
    products = [node for node in proto.graph.node if node.op_type == "Gemm"]
    assert [node.name for node in products] == [
        "LSTM0.0.input_products",
        *(f"LSTM0.0.{at}.product" for at in range(1, 6)),
    ]
    assert len({node.input[1] for node in products}) == 2
    assert sum(each.name.endswith("weights") for each in proto.graph.initializer) == 2
    assert {"W0", "R0", "B0"}.isdisjoint(each.name for each in proto.graph.initializer)


def test_stacked_layers_read_unreshaped_tensors():
    graph = RecurrentModel()
    first, *_ = graph.recurrent("LSTM", graph.input(4, 1, 3), 4, "bidirectional")
    turned = graph.node("Transpose", first, perm=[0, 2, 1, 3])
    flat = graph.node("Reshape", turned, graph.constant(np.array([0, 0, -1])))
    second, *_ = graph.recurrent("GRU", flat, 5, width=8)
    model = graph.model(graph.node("Squeeze", second, graph.constant(np.array([1]))))
    proto = check_alike(model)
    names = {name: node for node in proto.graph.node for name in node.output}
    product = next(node for node in proto.graph.node if node.name == "GRU3.0.input_products")
    assert names[product.input[0]].name == "LSTM0.states"
    (result,) = (names[each.name] for each in proto.graph.output)
    assert (result.op_type, names[result.input[0]].name) == ("Reshape", "GRU3.0.states")


def test_dead_results_are_not_computed():
    graph = RecurrentModel()
    _, last, _ = graph.recurrent("LSTM", graph.input(4, 2, 3), 4)
    assert "Concat" not in kinds(check_alike(graph.model(last)))


STAYING = {
    "sequence_lens": {"lengths": np.array([4, 2], np.int32)},
    "peephole weights": {"peepholes": np.ones((1, 12), np.float32)},
    "(Elu)": {"activations": ["Sigmoid", "Elu", "Tanh"]},
    "its weights": {"computed_weights": True},
}


@pytest.mark.parametrize("mention", STAYING)
def test_nodes_that_are_not_unrolled_have_a_reason(mention):
    graph = RecurrentModel()
    model = graph.model(*graph.recurrent("LSTM", graph.input(4, 2, 3), 4, **STAYING[mention]))
    found = unrolled(read_model(model))
    assert [*found.not_unrolled] == ["LSTM0"]
    reason = found.not_unrolled["LSTM0"]
    check_mentions(reason, mention)
    rows = lt.simulate(lt.from_onnx(model).build(lt.load_config("lathe16")), timing_only=True).layers
    assert {(row.name, row.where, row.why) for row in rows if row.name == "LSTM0"} == {("LSTM0", "host", reason)}
    assert "LSTM" in kinds(found.proto)
    inputs = random_floats(model, seed=1)
    for made, expected in zip(with_onnxruntime(found.proto, inputs), with_onnxruntime(model, inputs), strict=True):
        assert np.array_equal(made, expected)


def test_long_sequences_and_old_opsets_are_not_unrolled():
    graph = RecurrentModel()
    made = graph.recurrent("RNN", graph.input(257, 1, 3), 4)
    check_mentions(unrolled(read_model(graph.model(*made))).not_unrolled["RNN0"], "257 time steps", 256)
    graph = RecurrentModel(opset=11)
    made = graph.recurrent("RNN", graph.input(2, 1, 3), 4)
    check_mentions(unrolled(read_model(graph.model(*made))).not_unrolled["RNN0"], "opset", 11, 13)
