"""Speed of the RTL engines compared with the simulator, and build time of a Verilated machine.

    python benchmarks/rtl.py [--json]

The digits network on `vta`, 60 images, and a matmul on `tiny`; first, the engines' outputs and cycles are checked to be
equal. Requires the extra `rtl` and a C++ compiler. Machine `vta` is built with an empty cache, and again from it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, one_core, report, seconds

import lathe as lt
from lathe.engines import engine_named
from lathe.input_values import random_inputs
from lathe.networks.digits.network import digits_network, load_digits

IMAGES = 60
# A new process has no machine in memory, so that it is loaded from the cache.
BUILD = """
import time
import lathe as lt
from lathe.engines import engine_named
machine = lt.load_config("vta")
begun = time.perf_counter()
engine_named("verilator").prepare(machine, None)
print(time.perf_counter() - begun)
"""


def build_seconds(cache: str) -> float:
    """Seconds to prepare the Verilated `vta` in a separate process with a given cache."""
    environment = {**os.environ, "LATHE_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def digits_on_vta() -> tuple[lt.Program, dict[str, np.ndarray]]:
    network = digits_network(IMAGES)
    program = lt.build(network.logits, network.tensors, lt.load_config("vta"), constants=network.constants)
    return program, {"images": load_digits().images[:IMAGES]}


def matmul_on_tiny() -> tuple[lt.Program, dict[str, np.ndarray]]:
    A, B = lt.placeholder((32, 64), "int8", name="A"), lt.placeholder((32, 64), "int8", name="B")
    C = lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 8, name="D")
    program = lt.build(C, [A, B, C], lt.load_config("tiny"))
    return program, random_inputs(program, 0)


def speed(program: lt.Program, inputs: dict[str, np.ndarray], engine: str, runs: int) -> float:
    """Thousand cycles per second of a whole call, including setup, memory model and outputs, without traces."""
    cycles = lt.simulate(program, timing_only=True, trace=False).cycles
    return cycles / seconds(lambda: lt.simulate(program, inputs, engine=engine, trace=False), runs=runs) / 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        cold = build_seconds(cache)
        cached = build_seconds(cache)
        os.environ["LATHE_CACHE"] = cache  # the machine that was just built runs below
        engine_named("verilator").prepare(lt.load_config("tiny"), None)
        one_core()
        unit = "thousand cycles/s"
        figures = [at_most("build of vta, cold", cold, "s", 90), at_most("build of vta, cached", cached, "s", 1)]
        program, inputs = digits_on_vta()
        ran = lt.cosimulate(program, inputs).check()
        figures += [
            Figure("digits on vta", ran.cycles, "cycles"),
            Figure("digits on vta, sim", round(speed(program, inputs, "sim", 5), 3), unit),
            at_least("digits on vta, verilator", speed(program, inputs, "verilator", 5), unit, 500),
        ]
        program, inputs = matmul_on_tiny()
        ran = lt.cosimulate(program, inputs, engines=("sim", "verilator", "pysim")).check()
        figures += [
            Figure("product on tiny", ran.cycles, "cycles"),
            Figure("product on tiny, sim", round(speed(program, inputs, "sim", 5), 3), unit),
            Figure("product on tiny, verilator", round(speed(program, inputs, "verilator", 5), 3), unit),
            at_least("product on tiny, pysim", speed(program, inputs, "pysim", 2), unit, 5),
        ]
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
