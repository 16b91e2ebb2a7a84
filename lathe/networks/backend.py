"""Lathe as an ONNX backend (``onnx.backend.base``), for ONNX's own test suite.

    >>> import lathe.networks.backend as backend
    >>> backend.prepare(model).run([x])  # doctest: +SKIP

Models run on the simulator, and are compiled on each run, since the inputs determine dynamic dimensions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig, load_config
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.networks.network import from_onnx
from lathe.networks.overloads import simulate
from lathe.networks.run import NetworkResult

MACHINE = "lathe16"
"""The default machine."""


class Prepared:
    """A model that can be run (``onnx.backend.base.BackendRep``).

    ``constants``: inputs whose values are compiled in as constants.
    """

    def __init__(self, model: Any, config: HardwareConfig, constants: Sequence[str] = ()) -> None:
        self.model, self.config, self.constants = model, config, frozenset(constants)
        held = {each.name for each in model.graph.initializer}
        self.names = [each.name for each in model.graph.input if each.name not in held]
        self.result: NetworkResult | None = None

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs in order, for inputs in order or by name. ``result`` has the rows of the layers."""
        given = dict(inputs if isinstance(inputs, Mapping) else zip(self.names, inputs, strict=False))
        model = self._with_constants({name: given.pop(name) for name in self.constants & {*given}})
        open_ones = {
            each.name: list(np.shape(given[each.name]))
            for each in model.graph.input
            if each.name in given and each.type.HasField("tensor_type") and _is_open(each.type.tensor_type)
        }
        program = from_onnx(model, open_ones).build(self.config)
        self.result = simulate(program, given)
        return tuple(self.result.outputs[each.name] for each in self.model.graph.output)

    def _with_constants(self, held: Mapping[str, Any]) -> Any:
        """The model with initializers instead of some inputs."""
        if not held:
            return self.model
        model = type(self.model).FromString(self.model.SerializeToString())
        for number in reversed(range(len(model.graph.input))):
            if model.graph.input[number].name in held:
                del model.graph.input[number]
        from_array = optional_import("onnx.numpy_helper").from_array
        model.graph.initializer.extend(from_array(np.asarray(values), name) for name, values in held.items())
        return model


def _is_open(tensor: Any) -> bool:
    return not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim)


def is_compatible(model: Any, device: str = "CPU", **_: Any) -> bool:
    """Whether a model can be tried: any can."""
    del model
    return supports_device(device)


def supports_device(device: str) -> bool:
    """Whether models run on a device: the simulator runs on the CPU."""
    return device.partition(":")[0] == "CPU"


def prepare(
    model: Any, device: str = "CPU", config: HardwareConfig | None = None, constants: Sequence[str] = (), **_: Any
) -> Prepared:
    """Prepare a model for runs. ``config``: the machine, `lathe16` by default.

    ``constants``: names of inputs to compile in as constants, such as weights and scales.
    """
    del device
    return Prepared(model, config or load_config(MACHINE), constants)


def run_model(model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
    """Run a model once."""
    return prepare(model, device, **options).run(inputs)


def run_node(
    node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **options: Any
) -> tuple[Any, ...]:
    """Run one node of opset ``opset_version``, the newest by default."""
    del outputs_info
    helper = optional_import("onnx.helper")
    version = options.pop("opset_version", optional_import("onnx.defs").onnx_opset_version())
    names = [name for name in node.input if name]
    arrays = [np.asarray(each) for each in (inputs.values() if isinstance(inputs, Mapping) else inputs)]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in zip(names, arrays, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
    return run_model(model, arrays, device, **options)
