"""Cosimulation of networks: instruction streams run on several engines, which must agree in all bits and cycles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from lathe.cosimulation import Cosimulation, cosimulate
from lathe.input_values import blank_inputs
from lathe.isa import Program
from lathe.networks.program import NetworkProgram
from lathe.networks.run import NetworkResult, run_network
from lathe.sim import Result


@dataclass(frozen=True, eq=False)
class NetworkCosimulation:
    """The results of several engines: ``result`` is that of the first, ``streams`` compares them for each stream.

    All engines get a stream's inputs from the first engine, so that a difference is reported where it occurs.
    """

    result: NetworkResult
    engines: tuple[str, ...]
    streams: tuple[Cosimulation[Result], ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """Sentences that begin with the number of the stream; empty if the engines agree in everything."""
        return tuple(
            f"Stream {number}: {text}" for number, each in enumerate(self.streams, 1) for text in each.differences
        )

    @property
    def agree(self) -> bool:
        """Whether the engines agree in everything."""
        return not self.differences

    @property
    def cycles(self) -> dict[str, int | None]:
        """Cycles of all streams by engine; None for an engine that stopped with a fault."""
        found: dict[str, int | None] = {}
        for name in self.engines:
            ran = [each.results.get(name) for each in self.streams]
            found[name] = None if None in ran else sum(result.cycles for result in ran if result is not None)
        return found


def cosimulate_network(
    program: NetworkProgram,
    inputs: Mapping[str, ArrayLike] | None,
    engines: Sequence[str],
    *,
    timing_only: bool = False,
) -> NetworkCosimulation:
    """Run a network on several engines. Raises the errors of ``cosimulate``, and of ``simulate`` of a network.

    With ``timing_only``, streams run on zeros: timing does not depend on data.
    """
    ran: list[Cosimulation[Result]] = []

    def run(stream: Program, given: Mapping[str, NDArray[Any]]) -> Result:
        ran.append(cosimulate(stream, blank_inputs(stream) if timing_only else given, engines=engines))
        return ran[-1].first

    result = run_network(program, inputs, run, timing_only=timing_only)
    return NetworkCosimulation(result, tuple(engines), tuple(ran))
