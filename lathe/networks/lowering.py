"""Layers as one tensor program, with what goes in and comes out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from lathe.frontend import Tensor, placeholder
from lathe.frontend.onnx.quant_graph import Conv, Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.factor_axes import digits_of
from lathe.networks.im2col_stem import Im2colStem
from lathe.networks.io_bindings import IOBinding
from lathe.networks.layer_lowering.context import Context, elements_of, plain_in_digits
from lathe.networks.layer_lowering.programs import program_of_layer
from lathe.networks.layer_lowering.zero_points import (
    beside_zero_point,
    channels_of_zero_point,
    has_zero_point,
    without_zero_point,
)
from lathe.networks.layouts import read_as_image
from lathe.networks.lowered_values import Array, Shape, Value, computed, filled, own_shape

NO_STEMS: Mapping[str, Im2colStem] = MappingProxyType({})


@dataclass(eq=False)
class Lowered:
    """Layers as one tensor program."""

    inputs: list[IOBinding] = field(default_factory=list)
    outputs: list[IOBinding] = field(default_factory=list)
    placeholders: list[Tensor] = field(default_factory=list)
    made: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Of each stage that ends a layer, the layer's name in the model."""

    def given(self, port: IOBinding, is_image: bool, lanes: int, digits: tuple[Shape, ...] | None = None) -> Value:
        """An input, of a port without a width yet; of a plain one perhaps with its dimensions in digits."""
        if digits is not None and not is_image:
            whole = tuple(chain.from_iterable(digits))
            held = placeholder(whole, "int8", name=port.name)
            self.placeholders.append(held)
            self.inputs.append(replace(port, digits=whole, axes=tuple(range(len(whole)))))
            return plain_in_digits(held, port.shape, digits)
        held = placeholder(own_shape(port.shape, lanes, is_image=is_image), "int8", name=port.name)
        self.placeholders.append(held)
        self.inputs.append(replace(port, width=held.shape[-1] if is_image else 0))
        return Value(held, port.shape, is_image)

    def sent_with_zero_point(
        self, key: "_Extended", extra: int, types: Mapping[str, TensorType], names: "_Names", lanes: int
    ) -> Value:
        """An input with its zero point in so many channels, or columns, behind its own."""
        (tensor, zero_point), is_image = key
        known = types[tensor]
        axis = 1 if is_image else len(known.shape) - 1
        shape = tuple(size + extra if n == axis else size for n, size in enumerate(known.shape))
        port = IOBinding(tensor, names.fresh(tensor), known.dtype, shape, zero_point=zero_point, extra=extra)
        return self.given(port, is_image, lanes)

    @property
    def results(self) -> list[Tensor]:
        """The tensors that the program makes for others."""
        return [tensor for port in self.outputs for tensor in self.made[port.tensor].tensors]

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
    """The program of some layers, in which channels of images fill whole blocks of so many ``lanes``.

    ``stems`` are first convolutions, by their data, of which the host sends windows. A tensor without dimensions has
    one of extent 1 in the program.
    """
    single = {name for layer in layers for name in (*layer.inputs, layer.output) if not types[name].shape}
    types = {**types, **{name: replace(types[name], shape=(1,)) for name in single}}
    found, names, digits = Lowered(), _Names(), digits_of(layers, types)
    read = {tensor for layer in layers if not has_zero_point(layer) for tensor in layer.inputs}
    read |= {layer.inputs[0] for layer in layers if has_zero_point(layer) and not _is_sent(layer, inputs)}
    points = {layer.inputs[1] for layer in layers if has_zero_point(layer) and not _is_sent(layer, inputs)}
    for tensor in inputs:
        known = types[tensor]
        if tensor in stems:
            stem = stems[tensor]
            port = IOBinding(tensor, names.fresh(tensor), known.dtype, stem.shape, windows=stem.windows)
            found.made[tensor] = found.given(port, True, lanes)
        elif tensor in points and tensor not in read:
            port = IOBinding(tensor, names.fresh(tensor), known.dtype, (lanes,), single=True)
            found.made[tensor] = found.given(port, False, lanes)
        elif tensor in read:
            is_image = read_as_image(tensor, known.shape, layers)
            found.made[tensor] = found.given(
                IOBinding(tensor, names.fresh(tensor), known.dtype, known.shape, single=tensor in single),
                is_image, lanes, digits.of.get(tensor),
            )  # fmt: skip
    extra_of, extended = _room_of_zero_points(layers, inputs, types, lanes), dict[_Extended, Value]()
    labels: dict[str, str] = {}
    for number, layer in enumerate(layers):
        name, shape = names.fresh(layer.name), types[layer.output].shape
        read_so = read_as_image(layer.output, shape, layers[number + 1 :])
        context = Context(
            name, shape, read_so, lanes, found.constants, found.placeholders, digits.of.get(layer.output),
            layer.output in digits.views,
        )  # fmt: skip
        if has_zero_point(layer):
            key = layer.inputs, isinstance(layer, Conv)
            extra = extra_of[key]
            if key not in extended and _is_sent(layer, inputs):
                extended[key] = found.sent_with_zero_point(key, extra, types, names, lanes)
            elif key not in extended:
                of_data, of_point = (found.made[tensor] for tensor in layer.inputs)
                extended[key] = beside_zero_point(of_data, of_point, extra, context, is_image=key[1])
            value, axis = extended[key], 1 if key[1] else -1
            between = value.shape[axis] - types[layer.inputs[0]].shape[axis] - extra
            found.made[layer.output] = program_of_layer(without_zero_point(layer, extra, between), (value,), context)
        else:
            data = _operands(layer, found, types, context)
            own = stems[layer.inputs[0]].layer if layer.inputs[0] in stems else layer
            found.made[layer.output] = program_of_layer(own, data, context)
        found.names[name], labels[layer.output] = layer.name, name
    in_float = {layer.output: layer.in_float for layer in layers}
    for tensor in outputs:
        made = found.made[tensor] = _made_alone(tensor, found, labels)
        port = _output(tensor, types[tensor], made)
        found.outputs.append(replace(port, numbers=in_float[tensor], single=tensor in single))
    return found


def _made_alone(tensor: str, found: Lowered, labels: Mapping[str, str]) -> Value:
    """What a tensor that others want is: such as is another one, read otherwise, is made where that is wanted, too."""
    value = found.made[tensor]
    others = [*found.placeholders, *found.results]
    if all(value.tensor is not each for each in others):
        return value
    return computed(value.shape, elements_of(value), f"{labels[tensor]}.made", 1, is_image=value.is_image)


def _output(tensor: str, known: TensorType, made: Value) -> IOBinding:
    port = IOBinding(tensor, made.tensor.name, known.dtype, known.shape, more=tuple(each.name for each in made.more))
    if made.is_image:
        return replace(port, width=made.width, places=made.places)
    if made.axes is None:
        return port
    read = [axis for dimension in made.axes for axis in dimension]
    axes = (*read, *(axis for axis in range(made.tensor.ndim) if axis not in read))
    return replace(port, digits=tuple(made.tensor.shape[axis] for axis in axes), axes=axes)


_Extended: TypeAlias = tuple[tuple[str, ...], bool]
"""Data and their zero point, and whether they are an image."""


def _is_sent(layer: Layer, inputs: tuple[str, ...]) -> bool:
    """Whether the host sends a layer's data with their zero point beside them."""
    return has_zero_point(layer) and {*layer.inputs} <= {*inputs}


def _room_of_zero_points(
    layers: tuple[Layer, ...], inputs: tuple[str, ...], types: Mapping[str, TensorType], lanes: int
) -> dict[_Extended, int]:
    """Channels, or columns, that zero points take behind their data: as many as any layer that reads these wants."""
    wanted: dict[_Extended, int] = {}
    for layer in layers:
        if has_zero_point(layer):
            key = layer.inputs, isinstance(layer, Conv)
            wanted[key] = max(wanted.get(key, 0), channels_of_zero_point(layer))
    for (tensors, is_image), least in wanted.items():
        own = types[tensors[0]].shape[1 if is_image else -1]
        if not {*tensors} <= {*inputs}:
            wanted[tensors, is_image] = -(-least // lanes) * lanes
        elif not is_image:
            wanted[tensors, is_image] = filled(own + least, lanes) - own
    return wanted


def _operands(layer: Layer, found: Lowered, types: Mapping[str, TensorType], context: Context) -> tuple[Value, ...]:
    """What a layer reads; constants lie as the operand does that is none."""
    made = next((found.made[tensor] for tensor in layer.inputs if tensor not in layer.held), None)
    values = []
    for number, tensor in enumerate(layer.inputs):
        if tensor not in layer.held:
            values.append(found.made[tensor])
            continue
        known = types[tensor]
        is_image = made is not None and made.is_image and len(known.shape) == len(made.shape)
        whole = own_shape(known.shape, context.lanes, is_image=is_image)
        port = IOBinding(tensor, "", known.dtype, known.shape, whole[-1] if is_image else 0)
        held = context.constant(f"operand{number}", port.to_machine(layer.held))
        values.append(Value(held, known.shape, is_image))
    return tuple(values)


class _Names:
    """Names of a model as such that the language takes, each once."""

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
