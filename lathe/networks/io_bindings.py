"""What goes into a program and comes out of it: arrays as models have them, and as machines do."""

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
    """A tensor of a model as a program has it: under another name, images with channels last, less 128 if uint8.

    ``width``: of an image the channels that the program has; 0 of what is none. ``more``: of a result of 32 bits the
    names of its bytes behind the lowest, which ``name`` is; the last of them has the sign. ``zero_point``: a tensor
    whose one value stands in the last ``extra`` channels, or columns, of ``shape``. ``digits``: the shape of a tensor
    whose dimensions are taken apart, and ``axes`` the axes of the program's tensor in their order. ``windows`` of the
    tensor lie in the channels, if any. ``numbers``: what sums of 32 bits stand for, if not for themselves. Of
    a ``single`` number, which the model may have without dimensions, the program has copies, one or more.
    """

    tensor: str
    name: str
    dtype: str
    shape: Shape
    width: int = 0
    places: Shape | None = None
    more: tuple[str, ...] = ()
    zero_point: str = ""
    extra: int = 0
    digits: Shape = ()
    axes: Shape = ()
    windows: Windows | None = None
    numbers: FloatSums | None = None
    single: bool = False

    def to_machine(self, arrays: Mapping[str, Array]) -> Array:
        """The array that the program takes, of the model's arrays by name.

        Raises ModelError where the host has made another shape than the one that the program was built for.
        """
        signed = self._signed(arrays[self.tensor])
        self._check_size(signed)
        if self.single:
            signed = np.broadcast_to(signed.reshape(()), self.shape)
        if self.windows is not None:
            signed = self.windows.laid(signed)
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
        wanted = list(self.shape)
        if self.extra:
            wanted[1 if self.width else -1] -= self.extra
        if self.single or self.windows is not None or values.size == prod(wanted):
            return
        raise ModelError(
            f"tensor {self.tensor!r} must have the shape {tuple(wanted)} that ONNX's inference of shapes gives it, for "
            f"which the network was built, not {values.shape}, as the host computes it. Write the node that makes it "
            "in a way that both read alike, such as a pool with borders instead of ceil_mode or auto_pad."
        )

    def _signed(self, values: Array) -> Array:
        return (values ^ np.uint8(128)).view(np.int8) if self.dtype == "uint8" else values

    def from_machine(self, results: Mapping[str, Array]) -> Array:
        """The model's tensor of what the program made, by name."""
        made = self._made(results)
        return made.reshape(()) if self.single else made

    def _made(self, results: Mapping[str, Array]) -> Array:
        values = self._in_order(results[self.name])
        if self.dtype == "int32" or self.numbers is not None:
            sums = self._joined([values, *(self._in_order(results[name]) for name in self.more)])
            return sums if self.numbers is None else self.numbers.of(sums, self.dtype)
        return values.view(np.uint8) ^ np.uint8(128) if self.dtype == "uint8" else values

    def _in_order(self, values: Array) -> Array:
        if self.width:
            chosen = values[..., : self.shape[1]] if self.places is None else values[..., list(self.places)]
            values = np.moveaxis(chosen, -1, 1).reshape(self.shape)
        elif self.digits:
            values = values.transpose(self.axes).reshape(self.shape)
        return np.ascontiguousarray(values)

    def _joined(self, planes: list[Array]) -> Array:
        """Numbers of 32 bits, of their bytes from the lowest on."""
        found = planes[-1].astype(np.int32)
        for plane in reversed(planes[:-1]):
            found = (found << 8) | plane.view(np.uint8)
        return found
