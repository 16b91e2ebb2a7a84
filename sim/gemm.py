"""GEMM in a few NumPy calls per instruction: gather operands, multiply matrices, write or add to accumulators."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Gemm
from lathe.sim.gemm_blocking import EXACT_TERMS, Contraction, Values, contractions
from lathe.sim.micro_ops import Addresses, Ints, Nest, as_slice, last_writes
from lathe.sim.scratchpads import Memories
from lathe.sim.uop_plan_cache import Plans, check_indices

# Maximum values of the largest operand of a matmul that are gathered at once, over samples.
VALUES_AT_ONCE = 1 << 22


class GemmExecutor:
    """Executor of GEMM instructions, faster than applying their semantics one by one.

    Exact: a sum of at most 2^10 products of int8 is at most 2^24 in magnitude, and so is every partial sum in any
    order, which float32 represents; longer sums are split, and accumulators add in int32, which wraps around.
    """

    def __init__(self, cfg: HardwareConfig, memories: Memories) -> None:
        self.cfg = cfg
        self.inp, self.wgt, self.acc = memories.inp, memories.wgt, memories.acc
        self.batch, self.block_in, self.block_out = cfg.batch, cfg.block_in, cfg.block_out
        # A single vector may have too long a sum for float32; float64 represents all integers up to 2^53.
        self.dtype = np.float32 if cfg.block_in <= EXACT_TERMS else np.float64
        self.values = Values(
            inp=cfg.batch * cfg.block_in,
            wgt=cfg.block_out * cfg.block_in,
            acc=cfg.batch * cfg.block_out,
            most_terms=max(1, EXACT_TERMS // cfg.block_in),
        )
        self.plans: Plans[list[Contraction]] = Plans(cfg, memories.uop, self.plan)
        self.resets: Plans[Addresses] = Plans(cfg, memories.uop, self.plan_reset)
        self.begins: Plans[list[Contraction]] = Plans(cfg, memories.uop, self.plan_begin)
        self.gathered: NDArray[np.float32] = np.empty(0, np.float32)

    def run(self, gemm: Gemm, where: Callable[[], str]) -> Sequence[Addresses]:
        """Execute one instruction; returns the accumulators that it writes.

        `where` names it in an :class:`~lathe.sim.uop_plan_cache.IndexFault`.
        """
        if gemm.reset:
            targets = self.resets.of(gemm, where)
            if targets is None:
                return ()
            self.acc[..., targets, :] = 0
            return (targets,)
        plans = self.begins if gemm.begin else self.plans
        plan = plans.of(gemm, where) or ()
        for contraction in plan:
            for samples in self.parts(contraction):
                target = (*samples, contraction.dst)
                if gemm.begin:
                    self.acc[target] = self.products(contraction, samples)
                else:
                    self.acc[target] += self.products(contraction, samples)
        return [contraction.dst for contraction in plan]

    def plan(self, gemm: Gemm, nest: Nest, where: Callable[[], str]) -> tuple[list[Contraction], int]:
        """The matrix multiplications of a nest, and the number of indices that they hold."""
        check_indices(self.cfg, gemm, nest, where)
        plan = list(contractions(nest, self.values))
        return plan, sum(each.stored for each in plan)

    def plan_begin(self, gemm: Gemm, nest: Nest, where: Callable[[], str]) -> tuple[list[Contraction], int]:
        """The matrix multiplications of the executions that no later one overwrites: one term per accumulator."""
        check_indices(self.cfg, gemm, nest, where)
        plan = list(contractions(last_writes(nest), self.values))
        return plan, sum(each.stored for each in plan)

    def plan_reset(self, gemm: Gemm, nest: Nest, where: Callable[[], str]) -> tuple[Addresses, int]:
        """The accumulators that a nest resets."""
        check_indices(self.cfg, gemm, nest, where)
        outer = np.unique(np.arange(nest.iter_out) * nest.dst.out)
        inner = np.unique(np.arange(nest.iter_in) * nest.dst.inner)
        chosen = np.unique(np.unique(outer[:, None] + inner)[:, None] + np.unique(nest.dst.table))
        return as_slice(chosen), len(chosen)

    def parts(self, contraction: Contraction) -> Sequence[tuple[slice, ...]]:
        """Slices of the samples whose operands fit in memory together; of one machine, all."""
        if self.acc.ndim == 2:
            return ((),)
        samples = len(self.acc)
        results = len(contraction.src) // contraction.shape[3] * contraction.shape[2]
        most = max(
            len(contraction.src) * self.values.inp, len(contraction.wgt) * self.values.wgt, results * self.values.acc
        )
        count = max(1, VALUES_AT_ONCE // most)
        return [(slice(first, min(first + count, samples)),) for first in range(0, samples, count)]

    def products(self, contraction: Contraction, samples: tuple[slice, ...]) -> NDArray[np.int32]:
        """The sums of a contraction for some samples, one row for each of its destinations."""
        batches, rows, columns, terms = contraction.shape
        inputs = self.gather(contraction.src, self.inp[samples] if samples else self.inp)
        weights = (self.wgt[samples] if samples else self.wgt).take(contraction.wgt, axis=-2, mode="clip")
        products = batches * len(inputs) if samples else batches
        if self.batch == 1:
            left = inputs.reshape(products, rows, -1)
        else:
            cells = inputs.reshape(products, rows, terms, self.batch, self.block_in)
            left = cells.transpose(0, 1, 3, 2, 4).reshape(products, rows * self.batch, -1)
        cells = weights.reshape(products, columns, terms, self.block_out, self.block_in)
        right = cells.transpose(0, 1, 3, 2, 4).reshape(products, columns * self.block_out, -1)
        if self.dtype is np.float64:
            product = np.matmul(left.astype(self.dtype), right.astype(self.dtype).transpose(0, 2, 1))
        elif products == 1:
            product = np.matmul(left[0], right[0].T)
        else:
            product = np.matmul(left, right.transpose(0, 2, 1))
        sums = product.astype(np.int32).reshape(products, rows, self.batch, columns, self.block_out)
        added = sums.transpose(0, 1, 3, 2, 4).reshape(*inputs.shape[:-2], batches * rows * columns, -1)
        if contraction.sums is not None:
            ordered = added.take(contraction.sums.order, axis=-2)
            added = np.add.reduceat(ordered, contraction.sums.starts, axis=-2, dtype=np.int32)
        result: NDArray[np.int32] = added
        return result

    def gather(self, src: Ints, inp: NDArray[np.float32]) -> NDArray[np.float32]:
        """The input vectors with the given indices, in a buffer that the next call overwrites."""
        size = inp.size // inp.shape[-2] * len(src)
        if size > len(self.gathered):
            self.gathered = np.empty(size, np.float32)
        out = self.gathered[:size].reshape(*inp.shape[:-2], len(src), -1)
        # With "raise", NumPy would first copy `out`. All indices are in range.
        inp.take(src, axis=-2, out=out, mode="clip")
        return out
