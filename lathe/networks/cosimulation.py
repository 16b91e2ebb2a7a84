"""Networks on several engines, stream by stream: each is compared in every bit and every cycle."""

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
    """What several engines made of a network: ``result`` is the first one's, ``streams`` compares them in each stream.

    Every stream is fed with what the first engine has made of those before, so that a difference is told where it
    begins.
    """

    result: NetworkResult
    engines: tuple[str, ...]
    streams: tuple[Cosimulation[Result], ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """Sentences, with the number of the stream before each; empty when the engines agree in everything."""
        return tuple(
            f"Stream {number}: {told}" for number, each in enumerate(self.streams, 1) for told in each.differences
        )

    @property
    def agree(self) -> bool:
        """Whether the engines agree in everything."""
        return not self.differences

    @property
    def cycles(self) -> dict[str, int | None]:
        """Cycles of all streams by engine; None for one that has stopped with a fault in a stream."""
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
    """Run a network on several engines. Raises what ``cosimulate`` and ``simulate`` of a network raise.

    The time of a stream does not depend on data, so with ``timing_only`` streams are compared on zeros.
    """
    ran: list[Cosimulation[Result]] = []

    def run(stream: Program, given: Mapping[str, NDArray[Any]]) -> Result:
        ran.append(cosimulate(stream, blank_inputs(stream) if timing_only else given, engines=engines))
        return ran[-1].first

    result = run_network(program, inputs, run, timing_only=timing_only)
    return NetworkCosimulation(result, tuple(engines), tuple(ran))
