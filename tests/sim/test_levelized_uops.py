"""Vectorised semantics: against the fast path for GEMM, and several samples at once against one machine per sample."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from extended_machines import with_extensions
from numpy.typing import NDArray
from rescaling import legal_rescale

from lathe.configs import HardwareConfig, load_config
from lathe.configs.extensions import EXTENSIONS
from lathe.isa import Alu, AluOp, Gemm, Rescale, decode_uops, encode_uops
from lathe.sim.dram import SparseMemory
from lathe.sim.executor import by_opcode
from lathe.sim.gemm import GemmExecutor
from lathe.sim.levelized_uops import LevelizedExecutor
from lathe.sim.scratchpads import Scratchpads

CONFIGS = {
    "tiny": with_extensions(load_config("tiny"), tuple(EXTENSIONS)),
    "batch": with_extensions(load_config("tiny").with_(batch=2, acc_buffer_bytes=8192), tuple(EXTENSIONS)),
}
SAMPLES = 3


@dataclass
class Memories:
    """Scratchpads of one machine, or of several samples (leading dimension)."""

    uop: NDArray[np.uint32]
    inp: NDArray[np.float32]
    wgt: NDArray[np.float32]
    acc: NDArray[np.int32]
    par: NDArray[np.int32]
    lut: NDArray[np.int8]

    def sample(self, number: int) -> "Memories":
        pads = (self.inp, self.wgt, self.acc, self.par, self.lut)
        return Memories(self.uop, *(pad[number].copy() for pad in pads))


def memories(cfg, seed: int) -> Memories:
    rng, empty = np.random.default_rng(seed), Scratchpads(cfg)
    uop = empty.uop.copy()
    uop[:8, 0] = encode_uops(cfg, *(rng.integers(0, 12, 8) for _ in range(3)))

    def bytes_like(pad: NDArray[Any]) -> NDArray[np.float32]:
        return rng.integers(-128, 128, (SAMPLES, *pad.shape)).astype(np.float32)

    acc = rng.integers(-(1 << 31), 1 << 31, (SAMPLES, *empty.acc.shape), np.int32)
    par = rng.integers(-(1 << 31), 1 << 31, (SAMPLES, *empty.par.shape), np.int32)
    lut = rng.integers(-128, 128, (SAMPLES, *empty.lut.shape), np.int8)
    return Memories(uop, bytes_like(empty.inp), bytes_like(empty.wgt), acc, par, lut)


def loops(rng: random.Random) -> dict[str, int]:
    begin = rng.randrange(7)
    factors = {f"{index}_factor_{loop}": rng.choice([0, 0, 1, 3]) for index in ("dst", "src") for loop in ("out", "in")}
    return {
        "uop_bgn": begin,
        "uop_end": rng.randint(begin, 8),
        "iter_out": rng.choice([0, 1, 2, 3, 4]),
        "iter_in": rng.choice([1, 2, 5]),
    } | factors


def a_gemm(rng: random.Random) -> Gemm:
    kind = rng.choice([{}, {}, {"reset": True}, {"begin": True}])
    return Gemm(**loops(rng), wgt_factor_out=rng.choice([0, 1]), wgt_factor_in=rng.choice([0, 2]), **kind)


def an_alu(rng: random.Random) -> Alu:
    return Alu(alu_opcode=rng.choice(list(AluOp)), **loops(rng), use_imm=rng.random() < 0.4, imm=rng.randint(-40, 40))


def a_rescale(rng: random.Random, cfg: HardwareConfig, words: NDArray[np.uint32]) -> Rescale:
    columns = [each.tolist() for each in decode_uops(cfg, words)]
    return legal_rescale(rng, cfg, lambda: loops(rng), columns)


def nowhere() -> str:
    return "the instruction"


@pytest.mark.seeds(8, slow=32)
@pytest.mark.parametrize("name", CONFIGS)
def test_gemm_by_its_semantics_equals_the_faster_form(name, seed):
    cfg, rng = CONFIGS[name], random.Random(seed)
    fast = memories(cfg, seed).sample(0)
    plain = memories(cfg, seed).sample(0)
    products, levels = GemmExecutor(cfg, fast), LevelizedExecutor(cfg, plain)
    for _ in range(6):
        gemm = a_gemm(rng)
        written = {
            place for places in products.run(gemm, nowhere) for place in np.r_[places].tolist()
        }  # fmt: skip
        again = {place for places in levels.run(gemm, nowhere) for place in np.r_[places].tolist()}
        assert written == again, f"seed {seed}: {gemm}"
        np.testing.assert_array_equal(plain.acc, fast.acc, err_msg=f"seed {seed}: {gemm}")


@pytest.mark.seeds(8, slow=32)
@pytest.mark.parametrize("name", CONFIGS)
def test_samples_equal_separate_machines(name, seed):
    cfg, rng = CONFIGS[name], random.Random(seed)
    together = memories(cfg, seed)
    alone = [together.sample(number) for number in range(SAMPLES)]
    carried_out = by_opcode(cfg, together, SparseMemory())
    machines = [by_opcode(cfg, each, SparseMemory()) for each in alone]
    for _ in range(6):
        instruction = rng.choice([a_gemm, an_alu, lambda rng: a_rescale(rng, cfg, together.uop[:8, 0])])(rng)
        carried_out[instruction.opcode](instruction, nowhere)
        for number, machine in enumerate(machines):
            machine[instruction.opcode](instruction, nowhere)
            np.testing.assert_array_equal(
                together.acc[number], alone[number].acc, err_msg=f"seed {seed}, sample {number}: {instruction}"
            )
