"""im2col of an array, as the host CPU executes it on the input of a first convolution."""

from dataclasses import dataclass

import numpy as np

from lathe.networks.lowered_values import Array


@dataclass(frozen=True)
class Windows:
    """im2col of images (N, C, H, W) to (N, C · KH · KW, HO, WO); padding has the value ``pad_value``."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    pad_value: int

    @property
    def reach(self) -> tuple[int, int]:
        """The extents of the dilated kernel."""
        height, width = ((taps - 1) * apart + 1 for taps, apart in zip(self.kernel, self.dilations, strict=True))
        return height, width

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the windows of images of a shape; () if that has other dimensions, or no window fits."""
        if len(shape) != 4:
            return ()
        sizes = (
            size + before + after for size, before, after in zip(shape[2:], self.pads[:2], self.pads[2:], strict=True)
        )
        counts = [(size - reach) // step + 1 for size, reach, step in zip(sizes, self.reach, self.strides, strict=True)]
        return (shape[0], shape[1] * self.kernel[0] * self.kernel[1], *counts) if min(counts) > 0 else ()

    def im2col(self, values: Array) -> Array:
        """The windows of int8 images."""
        top, left, bottom, right = self.pads
        wide = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=self.pad_value)
        windows = np.lib.stride_tricks.sliding_window_view(wide, self.reach, axis=(2, 3))
        (down, along), (apart_y, apart_x) = self.strides, self.dilations
        chosen = windows[:, :, ::down, ::along, ::apart_y, ::apart_x].transpose(0, 1, 4, 5, 2, 3)
        batch, channels, high, wide_taps, *size = chosen.shape
        return np.ascontiguousarray(chosen).reshape(batch, channels * high * wide_taps, *size)
