"""Layers as one tensor program, with what goes in and comes out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lathe.frontend import Tensor, placeholder
from lathe.frontend.onnx.layers import Layer
from lathe.frontend.onnx.reading import TensorType
from lathe.networks.layer_programs.context import Context
from lathe.networks.layer_programs.programs import program_of_layer
from lathe.networks.layouts import read_as_image
from lathe.networks.values import Array, Shape, Value, image_shape, own_shape


@dataclass(frozen=True)
class Port:
    """A tensor of a model as a program has it: under another name, images with channels last, less 128 if uint8.

    ``width``: of an image the channels that the program has; 0 of what is none.
    """

    tensor: str
    name: str
    dtype: str
    shape: Shape
    width: int = 0
    places: Shape | None = None

    def to_machine(self, values: Array) -> Array:
        """The array that the program takes."""
        signed = (values ^ np.uint8(128)).view(np.int8) if self.dtype == "uint8" else values
        if not self.width:
            return np.ascontiguousarray(signed)
        batch, channels, height, width = image_shape(self.shape)
        made = np.zeros((batch, height, width, self.width), np.int8)
        made[..., :channels] = np.moveaxis(signed, 1, -1).reshape(batch, height, width, channels)
        return made

    def from_machine(self, values: Array) -> Array:
        """The model's tensor of what the program made."""
        if self.width:
            chosen = values[..., : self.shape[1]] if self.places is None else values[..., list(self.places)]
            values = np.moveaxis(chosen, -1, 1).reshape(self.shape)
        ordered = np.ascontiguousarray(values)
        return ordered.view(np.uint8) ^ np.uint8(128) if self.dtype == "uint8" else ordered


@dataclass(eq=False)
class Lowered:
    """Layers as one tensor program."""

    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    placeholders: list[Tensor] = field(default_factory=list)
    made: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Of each stage that ends a layer, the layer's name in the model."""

    @property
    def results(self) -> list[Tensor]:
        """The tensors that the program makes for others."""
        return [self.made[port.tensor].tensor for port in self.outputs]

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
) -> Lowered:
    """The program of some layers, in which channels of images fill whole blocks of so many ``lanes``."""
    found, names = Lowered(), _Names()
    for tensor in inputs:
        known = types[tensor]
        is_image = read_as_image(tensor, known.shape, layers)
        held = placeholder(own_shape(known.shape, lanes, is_image=is_image), "int8", name=names.fresh(tensor))
        found.made[tensor] = Value(held, known.shape, is_image)
        found.placeholders.append(held)
        found.inputs.append(Port(tensor, held.name, known.dtype, known.shape, held.shape[-1] if is_image else 0))
    for number, layer in enumerate(layers):
        name, shape = names.fresh(layer.name), types[layer.output].shape
        read_so = read_as_image(layer.output, shape, layers[number + 1 :])
        context = Context(name, shape, read_so, lanes, found.constants, found.placeholders)
        data = _operands(layer, found, types, context)
        found.made[layer.output] = program_of_layer(layer, data, context)
        found.names[name] = layer.name
    for tensor in outputs:
        known, made = types[tensor], found.made[tensor]
        found.outputs.append(
            Port(tensor, made.tensor.name, known.dtype, known.shape, made.width if made.is_image else 0, made.places)
        )
    return found


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
        port = Port(tensor, "", known.dtype, known.shape, whole[-1] if is_image else 0)
        held = context.constant(f"operand{number}", port.to_machine(layer.held[tensor]))
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
