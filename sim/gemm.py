"""GEMM in a few NumPy calls for each instruction: gather operands, multiply matrices, write or add to accumulators."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Gemm, Opcode
from lathe.isa.legality import operands_of
from lathe.sim.contraction import EXACT_TERMS, Contraction, Values, contractions
from lathe.sim.micro_op_plans import Plans, require_in_range
from lathe.sim.micro_ops import Ints, Nest, last_writes, run_of
from lathe.sim.scratchpads import Scratchpads


class Products:
    """Carries out GEMM instructions on scratchpads.

    Exact: a sum of at most 2^10 products of int8 is at most 2^24 in magnitude, and so is every partial sum in any
    order, which float32 holds; longer sums are cut, and accumulators add in int32, which wraps around.
    """

    def __init__(self, cfg: HardwareConfig, pads: Scratchpads) -> None:
        self.cfg, self.pads = cfg, pads
        self.batch, self.block_in, self.block_out = cfg.batch, cfg.block_in, cfg.block_out
        # One element may have too long a sum for float32; float64 holds all integers up to 2^53.
        self.dtype = np.float32 if cfg.block_in <= EXACT_TERMS else np.float64
        self.values = Values(
            inp=cfg.batch * cfg.block_in,
            wgt=cfg.block_out * cfg.block_in,
            acc=cfg.batch * cfg.block_out,
            most_terms=max(1, EXACT_TERMS // cfg.block_in),
        )
        self.plans: Plans[list[Contraction]] = Plans(cfg, pads.uop, self.plan)
        self.resets: Plans[slice | Ints] = Plans(cfg, pads.uop, self.plan_reset)
        self.begins: Plans[list[Contraction]] = Plans(cfg, pads.uop, self.plan_begin)
        self.gathered: NDArray[np.float32] = np.empty(0, np.float32)

    def run(self, gemm: Gemm, where: Callable[[], str]) -> None:
        """Carry out one instruction; `where` names it in an :class:`~lathe.sim.micro_op_plans.IndexFault`."""
        if gemm.reset:
            targets = self.resets.of(gemm, where)
            if targets is not None:
                self.pads.acc[targets] = 0
            return
        if gemm.begin:
            for contraction in self.begins.of(gemm, where) or ():
                self.pads.acc[contraction.dst] = self.products(contraction)
            return
        for contraction in self.plans.of(gemm, where) or ():
            self.pads.acc[contraction.dst] += self.products(contraction)

    def plan(self, nest: Nest, where: Callable[[], str]) -> tuple[list[Contraction], int]:
        """The matrix products of a nest, and how many indices they hold."""
        require_in_range(self.cfg, nest, operands_of(Opcode.GEMM), where)
        found = list(contractions(nest, self.values))
        return found, sum(each.stored for each in found)

    def plan_begin(self, nest: Nest, where: Callable[[], str]) -> tuple[list[Contraction], int]:
        """The matrix products of the executions that no later one overwrites: one term for each accumulator."""
        require_in_range(self.cfg, nest, operands_of(Opcode.GEMM), where)
        found = list(contractions(last_writes(nest), self.values))
        return found, sum(each.stored for each in found)

    def plan_reset(self, nest: Nest, where: Callable[[], str]) -> tuple[slice | Ints, int]:
        """The accumulators that a nest resets."""
        require_in_range(self.cfg, nest, operands_of(Opcode.GEMM, always=True), where)
        outer = np.unique(np.arange(nest.iter_out) * nest.dst.out)
        inner = np.unique(np.arange(nest.iter_in) * nest.dst.inner)
        chosen = np.unique(np.unique(outer[:, None] + inner)[:, None] + np.unique(nest.dst.table))
        return run_of(chosen), len(chosen)

    def products(self, contraction: Contraction) -> NDArray[np.int32]:
        """The sums of a contraction's products, one row for each of its destinations."""
        batches, rows, columns, terms = contraction.shape
        inputs = self.gather(contraction.src)
        if self.batch == 1:
            left = inputs.reshape(batches, rows, -1)
        else:
            cells = inputs.reshape(batches, rows, terms, self.batch, self.block_in)
            left = cells.transpose(0, 1, 3, 2, 4).reshape(batches, rows * self.batch, -1)
        cells = self.pads.wgt.take(contraction.wgt, axis=0, mode="clip")
        cells = cells.reshape(batches, columns, terms, self.block_out, self.block_in)
        right = cells.transpose(0, 1, 3, 2, 4).reshape(batches, columns * self.block_out, -1)
        if self.dtype is np.float64:
            product = np.matmul(left.astype(self.dtype), right.astype(self.dtype).transpose(0, 2, 1))
        elif batches == 1:
            product = np.matmul(left[0], right[0].T)
        else:
            product = np.matmul(left, right.transpose(0, 2, 1))
        sums = product.astype(np.int32).reshape(batches, rows, self.batch, columns, self.block_out)
        added = sums.transpose(0, 1, 3, 2, 4).reshape(batches * rows * columns, -1)
        if contraction.sums is not None:
            added = np.add.reduceat(added[contraction.sums.order], contraction.sums.starts, axis=0, dtype=np.int32)
        result: NDArray[np.int32] = added
        return result

    def gather(self, src: Ints) -> NDArray[np.float32]:
        """The input elements of the given indices, in a buffer that the next call overwrites."""
        inp = self.pads.inp
        size = len(src) * inp.shape[1]
        if size > len(self.gathered):
            self.gathered = np.empty(size, np.float32)
        out = self.gathered[:size].reshape(len(src), -1)
        # With "raise", NumPy would make a copy of `out` first. All indices are in range.
        inp.take(src, axis=0, out=out, mode="clip")
        return out
