"""Lowering of the layers of a partition to a tensor program with bindings of its inputs and outputs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from lathe.frontend import Tensor, placeholder
from lathe.frontend.onnx.quant_graph import Conv, Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.factor_axes import axis_factors
from lathe.networks.im2col_stem import Im2colStem
from lathe.networks.io_bindings import IOBinding
from lathe.networks.layer_lowering.context import Context, elements_of, plain_in_digits
from lathe.networks.layer_lowering.programs import program_of_layer
from lathe.networks.layer_lowering.zero_points import (
    absorb_zero_point,
    append_zero_point,
    channels_of_zero_point,
    has_zero_point,
)
from lathe.networks.layouts import prefers_image_layout
from lathe.networks.lowered_values import Array, Shape, Value, computed, own_shape, padded_channels

NO_STEMS: Mapping[str, Im2colStem] = MappingProxyType({})


@dataclass(eq=False)
class Lowered:
    """A tensor program of layers. ``names``: the name of the layer in the model, by the stage with its result."""

    inputs: list[IOBinding] = field(default_factory=list)
    outputs: list[IOBinding] = field(default_factory=list)
    placeholders: list[Tensor] = field(default_factory=list)
    made: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add_input(
        self, binding: IOBinding, is_image: bool, lanes: int, digits: tuple[Shape, ...] | None = None
    ) -> Value:
        """Add an input, for a binding without a width; ``digits``: extents to split dimensions of a plain one into."""
        if digits is not None and not is_image:
            whole = tuple(chain.from_iterable(digits))
            held = placeholder(whole, "int8", name=binding.name)
            self.placeholders.append(held)
            self.inputs.append(replace(binding, digits=whole, axes=tuple(range(len(whole)))))
            return plain_in_digits(held, binding.shape, digits)
        held = placeholder(own_shape(binding.shape, lanes, is_image=is_image), "int8", name=binding.name)
        self.placeholders.append(held)
        self.inputs.append(replace(binding, width=held.shape[-1] if is_image else 0))
        return Value(held, binding.shape, is_image)

    def add_input_with_zero_point(
        self, key: "_Extended", extra: int, types: Mapping[str, TensorType], names: "_Names", lanes: int
    ) -> Value:
        """Add an input with its zero point in ``extra`` channels, or columns, after its own."""
        (tensor, zero_point), is_image = key
        known = types[tensor]
        axis = 1 if is_image else len(known.shape) - 1
        shape = tuple(size + extra if n == axis else size for n, size in enumerate(known.shape))
        binding = IOBinding(tensor, names.fresh(tensor), known.dtype, shape, zero_point=zero_point, extra=extra)
        return self.add_input(binding, is_image, lanes)

    @property
    def results(self) -> list[Tensor]:
        """The output tensors of the program."""
        return [tensor for binding in self.outputs for tensor in self.made[binding.tensor].tensors]

    @property
    def tensors(self) -> list[Tensor]:
        """All inputs and outputs of the program."""
        return [*self.placeholders, *self.results]


def lowered(
    layers: tuple[Layer, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    types: Mapping[str, TensorType],
    lanes: int = 1,
    stems: Mapping[str, Im2colStem] = NO_STEMS,
) -> Lowered:
    """Lower layers to a program in which channels of images are padded to whole blocks of ``lanes``.

    ``stems``: first convolutions with im2col by the host CPU, by their input. A scalar has shape (1,) in the program.
    """
    single = {name for layer in layers for name in (*layer.inputs, layer.output) if not types[name].shape}
    types = {**types, **{name: replace(types[name], shape=(1,)) for name in single}}
    found, names, digits = Lowered(), _Names(), axis_factors(layers, types)
    read = {tensor for layer in layers if not has_zero_point(layer) for tensor in layer.inputs}
    read |= {layer.inputs[0] for layer in layers if has_zero_point(layer) and not _is_packed_by_host(layer, inputs)}
    points = {layer.inputs[1] for layer in layers if has_zero_point(layer) and not _is_packed_by_host(layer, inputs)}
    for tensor in inputs:
        known = types[tensor]
        if tensor in stems:
            stem = stems[tensor]
            binding = IOBinding(tensor, names.fresh(tensor), known.dtype, stem.shape, windows=stem.windows)
            found.made[tensor] = found.add_input(binding, True, lanes)
        elif tensor in points and tensor not in read:
            binding = IOBinding(tensor, names.fresh(tensor), known.dtype, (lanes,), single=True)
            found.made[tensor] = found.add_input(binding, False, lanes)
        elif tensor in read:
            is_image = prefers_image_layout(tensor, known.shape, layers)
            found.made[tensor] = found.add_input(
                IOBinding(tensor, names.fresh(tensor), known.dtype, known.shape, single=tensor in single),
                is_image, lanes, digits.of.get(tensor),
            )  # fmt: skip
    extra_of, extended = _zero_point_channels(layers, inputs, types, lanes), dict[_Extended, Value]()
    labels: dict[str, str] = {}
    for number, layer in enumerate(layers):
        name, shape = names.fresh(layer.name), types[layer.output].shape
        is_image_result = prefers_image_layout(layer.output, shape, layers[number + 1 :])
        context = Context(
            name, shape, is_image_result, lanes, found.constants, found.placeholders, digits.of.get(layer.output),
            layer.output in digits.views,
        )  # fmt: skip
        if has_zero_point(layer):
            key = layer.inputs, isinstance(layer, Conv)
            extra = extra_of[key]
            if key not in extended and _is_packed_by_host(layer, inputs):
                extended[key] = found.add_input_with_zero_point(key, extra, types, names, lanes)
            elif key not in extended:
                of_data, of_point = (found.made[tensor] for tensor in layer.inputs)
                extended[key] = append_zero_point(of_data, of_point, extra, context, is_image=key[1])
            value, axis = extended[key], 1 if key[1] else -1
            between = value.shape[axis] - types[layer.inputs[0]].shape[axis] - extra
            found.made[layer.output] = program_of_layer(absorb_zero_point(layer, extra, between), (value,), context)
        else:
            data = _operands(layer, found, types, context)
            own = stems[layer.inputs[0]].layer if layer.inputs[0] in stems else layer
            found.made[layer.output] = program_of_layer(own, data, context)
        found.names[name], labels[layer.output] = layer.name, name
    in_float = {layer.output: layer.float_sums for layer in layers}
    for tensor in outputs:
        made = found.made[tensor] = _materialised(tensor, found, labels)
        binding = _output(tensor, types[tensor], made)
        found.outputs.append(replace(binding, numbers=in_float[tensor], single=tensor in single))
    return found


def _materialised(tensor: str, found: Lowered, labels: Mapping[str, str]) -> Value:
    """The value of an output; a view of an input or another output is copied, as it needs a tensor of its own."""
    value = found.made[tensor]
    others = [*found.placeholders, *found.results]
    if all(value.tensor is not each for each in others):
        return value
    return computed(value.shape, elements_of(value), f"{labels[tensor]}.made", 1, is_image=value.is_image)


def _output(tensor: str, known: TensorType, made: Value) -> IOBinding:
    binding = IOBinding(
        tensor, made.tensor.name, known.dtype, known.shape, byte_planes=tuple(each.name for each in made.more)
    )
    if made.is_image:
        return replace(binding, width=made.width, positions=made.positions)
    if made.axes is None:
        return binding
    read = [axis for dimension in made.axes for axis in dimension]
    axes = (*read, *(axis for axis in range(made.tensor.ndim) if axis not in read))
    return replace(binding, digits=tuple(made.tensor.shape[axis] for axis in axes), axes=axes)


_Extended: TypeAlias = tuple[tuple[str, ...], bool]
"""The names of data and of its computed zero point, and whether the data is an image."""


def _is_packed_by_host(layer: Layer, inputs: tuple[str, ...]) -> bool:
    """Whether a layer's data and its computed zero point are both inputs, so that the host CPU packs them together."""
    return has_zero_point(layer) and {*layer.inputs} <= {*inputs}


def _zero_point_channels(
    layers: tuple[Layer, ...], inputs: tuple[str, ...], types: Mapping[str, TensorType], lanes: int
) -> dict[_Extended, int]:
    """The channels, or columns, that zero points take after their data: the most that any consumer needs."""
    needed: dict[_Extended, int] = {}
    for layer in layers:
        if has_zero_point(layer):
            key = layer.inputs, isinstance(layer, Conv)
            needed[key] = max(needed.get(key, 0), channels_of_zero_point(layer))
    for (tensors, is_image), least in needed.items():
        own = types[tensors[0]].shape[1 if is_image else -1]
        if not {*tensors} <= {*inputs}:
            needed[tensors, is_image] = -(-least // lanes) * lanes
        elif not is_image:
            needed[tensors, is_image] = padded_channels(own + least, lanes) - own
    return needed


def _operands(layer: Layer, found: Lowered, types: Mapping[str, TensorType], context: Context) -> tuple[Value, ...]:
    """The operands of a layer; constants get the layout of an operand that is not constant."""
    made = next((found.made[tensor] for tensor in layer.inputs if tensor not in layer.constants), None)
    values = []
    for number, tensor in enumerate(layer.inputs):
        if tensor not in layer.constants:
            values.append(found.made[tensor])
            continue
        known = types[tensor]
        is_image = made is not None and made.is_image and len(known.shape) == len(made.shape)
        whole = own_shape(known.shape, context.lanes, is_image=is_image)
        binding = IOBinding(tensor, "", known.dtype, known.shape, whole[-1] if is_image else 0)
        held = context.constant(f"operand{number}", binding.to_machine(layer.constants))
        values.append(Value(held, known.shape, is_image))
    return tuple(values)


class _Names:
    """Unique identifiers of the tensor language for names of a model."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def fresh(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "tensor"
        plain = plain if plain[0].isalpha() else f"n{plain}"
        found, number = plain, 1
        while found in self.taken:
            number += 1
            found = f"{plain}_{number}"
        self.taken.add(found)
        return found
