"""The digits network as an ONNX model: the shipped file, and equal classes of the model and the tensor program."""

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from networks_checking import LATHE16, with_onnxruntime

import lathe as lt
from lathe.command_line import main
from lathe.networks.digits.job import expected_logits, run_digits
from lathe.networks.digits.network import load_digits
from lathe.networks.digits.onnx_model import BATCH, DIGITS_ONNX, as_images, digits_model


@pytest.fixture(scope="module")
def made():
    """The logits of all held-out images by the shipped model on lathe16, and where its layers ran."""
    program = lt.from_onnx(DIGITS_ONNX).build(LATHE16)
    images = as_images(load_digits().images)
    results = [lt.simulate(program, {"images": images[at : at + BATCH]}) for at in range(0, len(images), BATCH)]
    return np.concatenate([each.outputs["logits"] for each in results]), results[0]


def test_the_file_is_up_to_date():
    shipped = onnx.load(DIGITS_ONNX)
    onnx.checker.check_model(shipped, full_check=True)
    assert shipped == digits_model()


@pytest.mark.slow
def test_model_and_tensor_program_give_the_same_classes(made):
    logits, result = made
    job = run_digits(LATHE16)
    assert job.images == len(logits) == 360
    assert np.array_equal(logits.argmax(axis=1), job.outputs.argmax(axis=1))
    assert int((logits.argmax(axis=1) == job.labels).sum()) == job.correct
    npu = [row.name for row in result.layers if row.where == "npu"]
    assert npu == ["conv1", "conv2", "pool", "flatten", "dense"]


def test_logits_are_within_one_unit_of_the_integer_networks(made):
    """The integer network rounds halves up, QuantizeLinear to even."""
    logits, _ = made
    held = {each.name: onnx.numpy_helper.to_array(each) for each in digits_model().graph.initializer}
    units = logits / held["dense.out.scale"]
    assert np.abs(units - expected_logits(load_digits(), len(units))).max() <= 1


def test_onnxruntime_and_other_batches_agree(made):
    logits, _ = made
    images = as_images(load_digits().images)[:3]
    model = digits_model(batch=3)
    assert np.array_equal(with_onnxruntime(model, {"images": images})[0], logits[:3])
    result = lt.simulate(lt.from_onnx(model).build(LATHE16), {"images": images})
    assert np.array_equal(result.outputs["logits"], logits[:3])


def test_on_the_command_line(made, tmp_path):
    np.savez(tmp_path / "images.npz", images=as_images(load_digits().images)[:BATCH])
    words = ["run", str(DIGITS_ONNX), str(tmp_path / "images.npz"), "-c", "lathe16", "--json"]
    told = json.loads(CliRunner().invoke(main, words).stdout)
    assert told["cycles"] == made[1].cycles
    assert told["outputs"][0]["equal"] == 1.0
