"""What the tests of modules share: a bench that sets inputs and reads outputs cycle by cycle."""

from collections.abc import Callable

import pytest
from amaranth.sim import Simulator


@pytest.fixture
def bench() -> Callable:
    """Runs an async function `steps(ctx)` on a module; `clocked` when it has registers."""

    def run(module, steps, *, clocked=True):
        simulator = Simulator(module)
        if clocked:
            simulator.add_clock(1e-6)
        simulator.add_testbench(steps)
        simulator.run()

    return run
