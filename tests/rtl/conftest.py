"""Fixtures of this folder: a simulator of modules, and components of the C++ harness compiled to libraries."""

import ctypes
import subprocess
from collections.abc import Callable

import pytest
from amaranth.sim import Simulator

from lathe.rtl.engines import build
from lathe.rtl.engines.abi import header


@pytest.fixture
def bench() -> Callable:
    """Run the testbench `steps(ctx)` on a module in Amaranth's simulator; `clocked` if it has registers."""

    def run(module, steps, *, clocked=True):
        simulator = Simulator(module)
        if clocked:
            simulator.add_clock(1e-6)
        simulator.add_testbench(steps)
        simulator.run()

    return run


@pytest.fixture(scope="session")
def in_cpp(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], ctypes.CDLL]:
    """Compile C++ text that includes headers of the harness to a library; `bus` is the bus width in bytes."""

    def compiled(text: str, bus: int) -> ctypes.CDLL:
        folder = tmp_path_factory.mktemp("in_cpp")
        (folder / "shared.h").write_text(header(bus))
        (folder / "part.cpp").write_text(text)
        options = [*build.COMPILER_OPTIONS, f"-I{folder}", f"-I{build.HERE}"]
        command = [build.cxx(), "-shared", "-O1", *options, str(folder / "part.cpp"), "-o", str(folder / "part.so")]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(folder / "part.so"))

    return compiled
