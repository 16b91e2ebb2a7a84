"""`lathe run MODEL.onnx`."""

import json

import numpy as np
import pytest
from invoked import lathe
from networks_checking import random_inputs
from qdq_models import QdqModel


def run(*words):
    return lathe("run", *words)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    graph = QdqModel(seed=1)
    first = graph.conv(graph.input(1, 3, 8, 8), 12, relu=True, name="first", pads=[1, 1, 1, 1])
    made = graph.model(graph.node("Softmax", graph.conv(first, 4, name="second"), axis=1))
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path, made


def test_a_table_of_the_layers(model):
    result = run(model[0], "-c", "lathe16")
    assert result.exit_code == 0, result.output
    for word in ("model.onnx on lathe16", "first", "second", "Softmax", "host", "against onnxruntime"):
        assert word in result.output


def test_json_with_inputs_from_a_file(model, tmp_path):
    path, made = model
    np.savez(tmp_path / "inputs.npz", **random_inputs(made, seed=3))
    found = json.loads(run(path, tmp_path / "inputs.npz", "-c", "lathe16", "--json").output)
    assert sum(row["cycles"] for row in found["layers"]) == found["cycles"] > 0
    assert {row["name"]: row["where"] for row in found["layers"]}["first"] == "npu"
    (output,) = found["outputs"]
    assert output["cosine"] > 0.999
    again = json.loads(run(path, "-c", "lathe16", "--json", "--random", 3).output)
    assert again["outputs"] == found["outputs"]


def test_invalid_options(model, tmp_path):
    path = model[0]
    told = {
        (path, "--shape", "x"): "--shape must be like x=1,3,48,192, not 'x'.",
        (path, "--shape", "x=1,a"): "--shape must be like x=1,3,48,192, not 'x=1,a'.",
        (path, "--random", -1): "--random must be a seed of at least 0, not -1.",
        (path, "--batch", 3): "--batch must be left out for the model",
        (path, "-o", tmp_path / "t.json"): "-o must be left out for a model",
        (
            path,
            "in.npz",
            "--random",
            3,
        ): "--random must be left out with the inputs 'in.npz', not 3.",
        (path, path): "must be an .npz archive of named arrays",
        ("--shape", "x=1"): "--shape must be left out unless MODEL.onnx is given, not ('x=1',).",
    }
    for words, message in told.items():
        result = run(*words, "-c", "lathe16")
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())
