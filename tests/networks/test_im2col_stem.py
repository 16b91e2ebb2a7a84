"""im2col by the host CPU for first convolutions with few channels, which does not change results."""

import numpy as np
import pytest
from error_checks import raises
from networks_checking import LATHE16, checked, random_inputs
from qdq_models import QdqModel

import lathe as lt
from lathe.networks.im2col import Windows


def model(channels: int, filters: int, kernel: int, dtype: str = "int8", **attributes):
    graph = QdqModel(seed=3, dtype=dtype)
    made = graph.conv(graph.input(1, channels, 18, 17), filters, kernel, name="stem", **attributes)
    return graph.model(made), {made: graph.scales[made]}


def port(given, config=LATHE16):
    step = next(step for step in lt.from_onnx(given).build(config).steps if hasattr(step, "program"))
    return step.inputs[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 2], "pads": [3, 3, 3, 3]},
        {"strides": [2, 1], "pads": [0, 2, 1, 0]},
        {"dilations": [2, 1], "pads": [3, 3, 3, 3]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_windows_in_the_channels(channels, attributes, dtype):
    given, units = model(channels, 20, 7, dtype, **attributes)
    assert port(given).windows is not None
    result = checked(given, units=units)
    row = next(row for row in result.layers if row.name == "stem")
    assert row.cycles >= row.bound > 0


SLOW = LATHE16.with_(**{"memory.bus_bits": 16, "memory.cycles_per_beat": 8})


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("config", "stride", "kernel"), [(LATHE16, 2, (7, 7)), (SLOW, 2, None), (LATHE16, 1, (7, 7)), (SLOW, 1, (1, 7))]
)
def test_windows_that_take_the_least_of_steps_and_bytes(config, stride, kernel):
    given, units = model(3, 64, 7, strides=[stride, stride], pads=[3, 3, 3, 3])
    found = port(given, config).windows
    assert (None if found is None else found.kernel) == kernel
    checked(given, config, units=units)


@pytest.mark.parametrize(("channels", "kernel"), [(16, 3), (3, 1), (12, 1)])
def test_no_im2col_if_channels_fill_the_lanes(channels, kernel):
    assert port(model(channels, 16, kernel)[0]).windows is None


def test_no_im2col_of_data_with_several_consumers():
    graph = QdqModel(seed=4)
    data = graph.input(1, 3, 9, 9)
    made = [graph.conv(data, 16, pads=[1, 1, 1, 1]) for _ in range(2)]
    assert port(graph.model(*made)).windows is None


def test_im2col_is_saved_in_files(tmp_path):
    given, _ = model(3, 20, 7, strides=[2, 2], pads=[3, 3, 3, 3])
    program = lt.from_onnx(given).build(LATHE16)
    program.save(tmp_path / "network.npz")
    inputs = random_inputs(given)
    again = lt.simulate(lt.NetworkProgram.load(tmp_path / "network.npz"), inputs)
    for name, values in lt.simulate(program, inputs).outputs.items():
        assert np.array_equal(again.outputs[name], values)


def test_windows_of_an_image():
    image = np.arange(1 * 2 * 5 * 6, dtype=np.int8).reshape(1, 2, 5, 6)
    windows = Windows((3, 2), (2, 1), (1, 3), (1, 0, 1, 2), -7)
    found = windows.im2col(image)
    wide = np.pad(image, ((0, 0), (0, 0), (1, 1), (0, 2)), constant_values=-7)
    assert found.shape == (1, 12, 3, 5)
    for c, ky, kx, y, x in np.ndindex(2, 3, 2, 3, 5):
        assert found[0, (c * 3 + ky) * 2 + kx, y, x] == wide[0, c, y * 2 + ky, x + kx * 3]


@pytest.mark.parametrize("shape", [(1, 3, 16, 17), (1, 3, 18, 20), (2, 3, 18, 17), (1, 3, 2, 2), (1, 3, 18)])
def test_another_shape_than_that_of_shape_inference_is_refused(shape):
    binding = port(model(3, 20, 7, strides=[2, 2], pads=[3, 3, 3, 3])[0])
    binding.to_machine({binding.tensor: np.zeros((1, 3, 18, 17), np.int8)})
    arrays = {binding.tensor: np.zeros(shape, np.int8)}
    raises(lt.ModelError, binding.to_machine, arrays, mentions=(binding.tensor, binding.shape, shape))
