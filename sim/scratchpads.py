"""The scratchpads of a machine, in the simulator's representation."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig


class Memories(Protocol):
    """Scratchpads, of one machine or of several that execute the same instructions on samples of data.

    All but ``uop`` are (depth, lanes), or (samples, depth, lanes); micro-ops are the same in all samples.
    """

    @property
    def uop(self) -> NDArray[np.uint32]: ...
    @property
    def inp(self) -> NDArray[np.float32]: ...
    @property
    def wgt(self) -> NDArray[np.float32]: ...
    @property
    def acc(self) -> NDArray[np.int32]: ...
    @property
    def par(self) -> NDArray[np.int32]: ...
    @property
    def lut(self) -> NDArray[np.int8]: ...


class Scratchpads:
    """One row per vector. ``inp`` and ``wgt`` hold their 8-bit values as float32, ready for BLAS.

    ``uop`` (uop_depth,) uint32; ``inp`` (inp_depth, batch · block_in); ``wgt`` (wgt_depth, block_out · block_in);
    ``acc`` (acc_depth, batch · block_out) int32; ``par`` (par_depth, block_out · 2) int32, bias and factor of each
    lane; ``lut`` (lut_depth, block_out) int8. There is no ``out``: it is always the low byte of ``acc``. All are
    initially zero.
    """

    def __init__(self, cfg: HardwareConfig) -> None:
        self.uop: NDArray[np.uint32] = np.zeros((cfg.uop_depth, 1), np.uint32)
        self.inp: NDArray[np.float32] = np.zeros((cfg.inp_depth, cfg.batch * cfg.block_in), np.float32)
        self.wgt: NDArray[np.float32] = np.zeros((cfg.wgt_depth, cfg.block_out * cfg.block_in), np.float32)
        self.acc: NDArray[np.int32] = np.zeros((cfg.acc_depth, cfg.batch * cfg.block_out), np.int32)
        self.par: NDArray[np.int32] = np.zeros((cfg.par_depth, cfg.block_out * 2), np.int32)
        self.lut: NDArray[np.int8] = np.zeros((cfg.lut_depth, cfg.block_out), np.int8)
