"""Register an emission rule: a leaky ReLU, ``max(x, x >> 3)``, as four instructions with one micro-op.

The rule matches the body of the partitioned loop and its tail; both have the pragma.

    python examples/own_rule.py [CONFIG]

It requires no packages besides Lathe.
"""

import sys

import numpy as np

import lathe as lt
from lathe.isa import Alu, AluOp, Gemm


@lt.emit_rule("leaky_relu")
def leaky_relu(chunk: lt.Chunk) -> list[lt.Instruction] | lt.RuleMismatch:
    """Emit ``B[i] = max(A[i], A[i] >> 3)`` on whole vectors in accumulators."""
    print(f"rule called for {chunk.describe()}")
    if chunk.role != "map" or len({read.tensor for read in chunk.reads}) != 1:
        return lt.RuleMismatch("the statement must be an element-wise function of one tensor")
    if {chunk.write.scope, chunk.reads[0].scope} != {"acc"}:
        return lt.RuleMismatch("operands must be in acc")
    view = lt.vectors(chunk)
    target, source = view.write, view.reads[0]
    count = 1
    for loop in view.loops:
        count *= view.extents[loop]
    pool = chunk.emitter.pool
    both = np.array([target.base]), np.array([source.base]), np.array([0])
    first, end, loads = pool.place(*both)
    return [
        *loads,
        Gemm(first, end, 1, count, 0, 1, 0, 0, 0, 0, reset=True),  # 0
        Alu(AluOp.ADD, first, end, 1, count, 0, 1, 0, 1),  # x
        Alu(AluOp.SHR, first, end, 1, count, 0, 1, 0, 1, use_imm=True, imm=3),  # x >> 3
        Alu(AluOp.MAX, first, end, 1, count, 0, 1, 0, 1),  # max(x >> 3, x)
    ]


cfg = lt.load_config(sys.argv[1] if len(sys.argv) > 1 else "vta")
A = lt.placeholder((60 * cfg.block_out,), "int8", name="A")
B = lt.compute(A.shape, lambda i: lt.max(A[i], A[i] >> 3), name="B")

s = lt.create_schedule(B)
result = s.cache_write(B, "acc")
source = s.cache_read(A, "acc", [result])
io, ii = s[result].split(s[result].axis[0], factor=16 * cfg.block_out)
s[result].emit_insn(ii, "leaky_relu")

program = lt.build(s, [A, B], cfg)
data = np.random.default_rng(0).integers(-128, 128, A.shape, np.int8)
run = lt.simulate(program, {"A": data})
assert np.array_equal(run.outputs["B"], lt.reference(B, {"A": data})), "bits differ from NumPy"
print(f"{run.cycles} cycles, equal to NumPy")
