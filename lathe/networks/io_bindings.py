"""Conversion of a program's inputs and outputs between the model's arrays and the machine's."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.quant_graph import FloatSums
from lathe.networks.im2col import Windows
from lathe.networks.lowered_values import Array, Shape, image_shape


@dataclass(frozen=True)
class IOBinding:
    """A model's ``tensor`` as input or output ``name`` of a program: images are NHWC, uint8 values are minus 128.

    ``width``: padded channels of an image; 0 for other tensors. ``positions``: those of the model's channels, if not in
    order. ``byte_planes``: names of the byte planes of an int32 result above the lowest, which is ``name``; the last
    one is signed. ``zero_point``: a tensor whose single value fills the last ``extra`` channels, or columns, of
    ``shape``. ``digits``: the shape after splitting dimensions, and ``axes`` the program's axis of each. ``windows``:
    im2col windows in the channels. ``numbers``: conversion of int32 sums to floats. A ``single`` value, which may be a
    scalar in the model, is broadcast to ``shape``.
    """

    tensor: str
    name: str
    dtype: str
    shape: Shape
    width: int = 0
    positions: Shape | None = None
    byte_planes: tuple[str, ...] = ()
    zero_point: str = ""
    extra: int = 0
    digits: Shape = ()
    axes: Shape = ()
    windows: Windows | None = None
    numbers: FloatSums | None = None
    single: bool = False

    def to_machine(self, arrays: Mapping[str, Array]) -> Array:
        """The program's input, from the model's arrays by name.

        Raises ModelError if the host CPU has computed another shape than the program was built for.
        """
        signed = self._signed(arrays[self.tensor])
        self._check_size(signed)
        if self.single:
            signed = np.broadcast_to(signed.reshape(()), self.shape)
        if self.windows is not None:
            signed = self.windows.im2col(signed)
        if self.extra:
            point = self._signed(arrays[self.zero_point]).reshape(-1)[0]
            axis = 1 if self.width else signed.ndim - 1
            shape = [self.extra if n == axis else size for n, size in enumerate(signed.shape)]
            signed = np.concatenate([signed, np.full(shape, point, np.int8)], axis=axis)
        if self.digits:
            signed = signed.reshape(self.digits).transpose(np.argsort(self.axes))
        if not self.width:
            return np.ascontiguousarray(signed)
        batch, channels, height, width = image_shape(self.shape)
        made = np.zeros((batch, height, width, self.width), np.int8)
        made[..., :channels] = np.moveaxis(signed, 1, -1).reshape(batch, height, width, channels)
        return made

    def _check_size(self, values: Array) -> None:
        expected = list(self.shape)
        if self.extra:
            expected[1 if self.width else -1] -= self.extra
        if self.windows is None:
            fits, of = values.size == prod(expected), ""
        else:
            fits, of = self.windows.shape_of(values.shape) == tuple(expected), " after im2col"
        if not (self.single or fits):
            raise ModelError(
                f"tensor {self.tensor!r} must have the shape {tuple(expected)}{of} of ONNX's shape inference, which "
                f"the network was built for, not {values.shape}, as the host CPU computes it. Rewrite its node so that "
                "both agree: a pool, for example, with explicit pads instead of ceil_mode or auto_pad."
            )

    def _signed(self, values: Array) -> Array:
        return (values ^ np.uint8(128)).view(np.int8) if self.dtype == "uint8" else values

    def from_machine(self, results: Mapping[str, Array]) -> Array:
        """The model's tensor, from the program's outputs by name."""
        made = self._made(results)
        return made.reshape(()) if self.single else made

    def _made(self, results: Mapping[str, Array]) -> Array:
        values = self._in_order(results[self.name])
        if self.dtype == "int32" or self.numbers is not None:
            sums = self._joined([values, *(self._in_order(results[name]) for name in self.byte_planes)])
            return sums if self.numbers is None else self.numbers.of(sums, self.dtype)
        return values.view(np.uint8) ^ np.uint8(128) if self.dtype == "uint8" else values

    def _in_order(self, values: Array) -> Array:
        if self.width:
            chosen = values[..., : self.shape[1]] if self.positions is None else values[..., list(self.positions)]
            values = np.moveaxis(chosen, -1, 1).reshape(self.shape)
        elif self.digits:
            values = values.transpose(self.axes).reshape(self.shape)
        return np.ascontiguousarray(values)

    def _joined(self, planes: list[Array]) -> Array:
        """int32 values from their byte planes, lowest first."""
        found = planes[-1].astype(np.int32)
        for plane in reversed(planes[:-1]):
            found = (found << 8) | plane.view(np.uint8)
        return found
