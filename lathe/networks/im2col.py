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

    def im2col(self, values: Array) -> Array:
        """The windows of int8 images."""
        top, left, bottom, right = self.pads
        wide = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=self.pad_value)
        reach = [(taps - 1) * apart + 1 for taps, apart in zip(self.kernel, self.dilations, strict=True)]
        windows = np.lib.stride_tricks.sliding_window_view(wide, reach, axis=(2, 3))
        (down, along), (apart_y, apart_x) = self.strides, self.dilations
        chosen = windows[:, :, ::down, ::along, ::apart_y, ::apart_x].transpose(0, 1, 4, 5, 2, 3)
        batch, channels, high, wide_taps, *size = chosen.shape
        return np.ascontiguousarray(chosen).reshape(batch, channels * high * wide_taps, *size)
