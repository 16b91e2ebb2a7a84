"""The digits network as a tensor program equals its independent definition."""

import numpy as np
import pytest

from lathe.frontend import TensorError, reference
from lathe.networks.digits.inference import infer
from lathe.networks.digits.network import digits_network, load_digits


def test_the_tensor_program_equals_the_integer_definition_on_all_images():
    digits = load_digits()
    network = digits_network(len(digits.images))
    logits = reference(network.logits, {"images": digits.images, **network.constants})
    assert logits.dtype == np.int8
    assert np.array_equal(logits, infer(digits.images, digits.parameters))


def test_it_also_does_where_values_wrap_into_the_clips():
    """Random weights and images of the whole int8 range drive every layer into both bounds of its clip."""
    rng = np.random.default_rng(6)
    parameters = {
        name: rng.integers(-128, 128, array.shape).astype(array.dtype) if array.ndim else array
        for name, array in load_digits().parameters.items()
    }
    images = rng.integers(-128, 128, (5, 8, 8, 1)).astype(np.int8)
    network = digits_network(5, parameters)
    logits = reference(network.logits, {"images": images, **network.constants})
    assert np.array_equal(logits, infer(images, parameters))
    assert {-128, 127} <= set(logits.ravel().tolist())


def test_the_arguments_stand_in_the_order_of_the_computation():
    names = [tensor.name for tensor in digits_network(1).tensors]
    layers = [f"{layer}_{kind}" for layer in ("conv1", "conv2", "dense") for kind in ("weights", "bias")]
    assert names == ["images", *layers, "logits"]


def test_a_batch_of_no_images_is_refused():
    with pytest.raises(TensorError) as caught:
        digits_network(0)
    assert str(caught.value) == (
        "extent of dimension 0 of placeholder 'images' must be a positive integer, not 0. "
        "A tensor has at least one element."
    )
