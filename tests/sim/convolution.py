"""A convolution of 56×56×64 to 64 channels, 3×3 with padding 1, as a stream written by hand for VTA's default machine.

Four tiles of 14 rows by two pairs of output blocks; each has four input blocks, which are double-buffered. The script
prints how fast the stream is simulated:  python tests/sim/convolution.py
"""

import resource
import time

import numpy as np

from lathe.configs import load_config
from lathe.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Layout,
    Load,
    MemoryType,
    PhysicalAxis,
    Program,
    Segment,
    Store,
    encode_uops,
)
from lathe.sim import simulate_program

SIZE, CHANNELS, BLOCK = 56, 64, 16
ROWS = 14  # of a tile
BLOCKS = CHANNELS // BLOCK
WIDTH = SIZE + 2
TILE = (ROWS + 2) * WIDTH  # input vectors of a tile with its border
OUTPUTS = ROWS * SIZE  # accumulators of a tile and output block
SHIFT = 6
PAGE = 4096


def program():
    """The program: input "data" (56, 56, 64) int8, output "result" (56, 56, 64) int8, constants "weights"."""
    cfg = load_config("vta")
    rng = np.random.default_rng(1)
    weights = rng.integers(-128, 128, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)  # out, in, y, x
    image = weights.reshape(2, 2, BLOCK, BLOCKS, BLOCK, 3, 3)  # pair, block of pair, o, in block, i, y, x
    image = image.transpose(0, 3, 5, 6, 1, 2, 4)  # pair, in block, y, x, block of pair, o, i
    layout = Layout(
        (SIZE, SIZE, CHANNELS),
        "int8",
        (PhysicalAxis(2, BLOCK, BLOCKS), PhysicalAxis(0, 1, SIZE), PhysicalAxis(1, 1, SIZE), PhysicalAxis(2, 1, BLOCK)),
    )
    uops = micro_ops(cfg)
    instructions = stream(weights_at=layout.nbytes // 256, result_at=2 * layout.nbytes // 16)
    result_end = 2 * layout.nbytes
    sizes = {"data": layout.nbytes, "weights": image.size, "result": layout.nbytes}
    assert sizes["weights"] <= layout.nbytes
    segments = (
        Segment("data", "input", 0, layout.nbytes, layout),
        Segment("weights", "constant", layout.nbytes, image.size),
        Segment("result", "output", result_end, layout.nbytes, layout),
        Segment("uops", "uop", 4 * layout.nbytes, 4 * len(uops)),
        Segment("stream", "instructions", 4 * layout.nbytes + PAGE, 16 * len(instructions)),
    )
    # The stream loads its micro-ops from the "uops" segment.
    instructions[0] = Load(MemoryType.UOP, 0, 4 * layout.nbytes // 4, 1, len(uops), len(uops))
    images = {"weights": np.ascontiguousarray(image).reshape(-1).view(np.uint8), "uops": uops.view(np.uint8)}
    return Program(cfg, tuple(instructions), segments, images), weights


def micro_ops(cfg):
    """Two tables of 18 micro-ops for the halves of the buffers, and one of 2 for whole tiles of both output blocks."""
    rows = []
    for half in range(2):
        for y in range(3):
            for x in range(3):
                for block in range(2):
                    rows.append((block * OUTPUTS, half * TILE + y * WIDTH + x, half * 18 + (y * 3 + x) * 2 + block))
    rows += [(block * OUTPUTS, block * OUTPUTS, 0) for block in range(2)]
    return encode_uops(cfg, *(np.array(column) for column in zip(*rows, strict=True)))


def stream(weights_at, result_at):
    loops = (ROWS, SIZE, SIZE, 1)  # iterations and destination factors
    instructions = [Finish()]  # the caller replaces it by the load of the micro-ops
    step = 0
    for tile in range(SIZE // ROWS):
        for pair in range(2):
            first = tile * pair == 0 and tile + pair == 0
            instructions.append(Gemm(36, 38, *loops, 0, 0, 0, 0, reset=True, pop_next=not first))
            for block in range(BLOCKS):
                half = step % 2
                top, bottom = int(tile == 0), int(tile == SIZE // ROWS - 1)
                row = tile * ROWS - 1 + top
                instructions += [
                    Load(
                        *(
                            MemoryType.INP,
                            half * TILE,
                            block * SIZE * SIZE + row * SIZE,
                            ROWS + 2 - top - bottom,
                            SIZE,
                            SIZE,
                        ),
                        *(top, bottom, 1, 1),
                        pop_next=step >= 2,
                    ),
                    Load(
                        *(MemoryType.WGT, half * 18, weights_at + (pair * BLOCKS + block) * 18, 1, 18, 18),
                        push_next=True,
                    ),
                    Gemm(half * 18, half * 18 + 18, *loops, WIDTH, 1, 0, 0, pop_prev=True, push_prev=True),
                ]
                step += 1
            operations = ((AluOp.SHR, SHIFT), (AluOp.MAX, -100), (AluOp.MIN, 100))
            for place, (operation, value) in enumerate(operations):
                last = place == len(operations) - 1
                instructions.append(Alu(operation, 36, 38, *loops, SIZE, 1, use_imm=True, imm=value, push_next=last))
            for block in range(2):
                at = result_at + ((pair * 2 + block) * SIZE + tile * ROWS) * SIZE
                instructions.append(
                    Store(
                        sram_base=block * OUTPUTS,
                        dram_base=at,
                        y_size=1,
                        x_size=OUTPUTS,
                        x_stride=OUTPUTS,
                        pop_prev=block == 0,
                        push_prev=block == 1,
                    )
                )
    instructions.append(Finish(pop_next=True))
    return instructions


def expected(data, weights):
    """The convolution in int32, shifted, clipped and truncated to int8."""
    padded = np.pad(data.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    sums = np.zeros((SIZE, SIZE, CHANNELS))
    for y in range(3):
        for x in range(3):
            sums += padded[y : y + SIZE, x : x + SIZE] @ weights[:, :, y, x].T.astype(np.float64)
    return np.clip(sums.astype(np.int64) >> SHIFT, -100, 100).astype(np.int8)


def measure():
    compiled, _ = program()
    data = np.random.default_rng(2).integers(-128, 128, (SIZE, SIZE, CHANNELS)).astype(np.int8)
    for name, options in (("with data", {}), ("timing only", {"timing_only": True, "trace": False})):
        simulate_program(compiled, {"data": data}, **options)
        seconds = []
        for _ in range(7):
            begin = time.perf_counter()
            result = simulate_program(compiled, {"data": data}, **options)
            seconds.append(time.perf_counter() - begin)
        counters = result.counters
        best, median = min(seconds), sorted(seconds)[3]
        print(
            f"{name:12} {result.cycles} cycles, {len(compiled.instructions)} instructions, "
            f"{counters.read_bursts + counters.write_bursts} bursts: {best * 1e3:.1f} ms (median {median * 1e3:.1f}), "
            f"{result.cycles / best / 1e6:.0f} million cycles per second"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    measure()
