"""The overloads of ``simulate`` and ``reference`` for programs and networks."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from lathe import engines
from lathe.configs.errors import shown
from lathe.engines import EngineError
from lathe.frontend import Tensor
from lathe.frontend import reference as reference_of_tensors
from lathe.isa import Program
from lathe.networks.network import Network
from lathe.networks.program import NetworkProgram
from lathe.networks.run import NetworkResult, network_reference, simulate_network
from lathe.sim import Result


@overload
def simulate(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = ...,
    *,
    engine: str = ...,
    timing_only: bool = ...,
    trace: bool = ...,
    tokens: Sequence[int] | None = ...,
    wave: str | PathLike[str] | None = ...,
) -> Result: ...


@overload
def simulate(
    program: NetworkProgram, inputs: Mapping[str, ArrayLike] | None = ..., *, engine: str = ..., timing_only: bool = ...
) -> NetworkResult: ...


def simulate(
    program: Program | NetworkProgram,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    engine: str = engines.CYCLE_MODEL,
    timing_only: bool = False,
    trace: bool = True,
    tokens: Sequence[int] | None = None,
    wave: str | PathLike[str] | None = None,
) -> Result | NetworkResult:
    """Run a program or a network on an engine.

    ``inputs`` has an array for each input, by name, in its logical shape and dtype. With ``timing_only`` they are not
    needed, nothing is computed, and the result has cycles, counters and trace but no outputs. For programs only:
    ``tokens`` are the four counts before the launch (load→compute, compute→load, compute→store, store→compute), by
    default the program's own, and ``wave`` is a file for the waveform of the RTL: .vcd, or with "verilator" also .fst.

    Engines: "sim", the cycle model; "pysim", the RTL in Python; "verilator", the RTL as compiled C++,
    which needs the extra `rtl` and a C++ compiler and builds a machine on its first use.

    Raises :class:`EngineError` for an unknown engine or a waveform that the engine does not write, FileError for a
    waveform that cannot be written, InputError for inputs that do not match, MachineFault for a program that faults,
    RtlError for a machine that cannot be built, and ModelError for nodes of a network that the host CPU cannot compute.
    """
    if not isinstance(program, NetworkProgram):
        return engines.simulate(
            program, inputs, engine=engine, timing_only=timing_only, trace=trace, tokens=tokens, wave=wave
        )
    for name, value in (("tokens", tokens), ("wave", wave)):
        if value is not None:
            raise EngineError(
                f"{name} of simulate must be omitted for a network, not {shown(value)}. Simulate one of its parts."
            )
    return simulate_network(program, inputs, engine=engine, timing_only=timing_only)


@overload
def reference(outputs: Tensor, inputs: Mapping[str, NDArray[Any]], **options: Any) -> NDArray[Any]: ...


@overload
def reference(
    outputs: Sequence[Tensor] | Network, inputs: Mapping[str, NDArray[Any]], **options: Any
) -> dict[str, NDArray[Any]]: ...


def reference(
    outputs: Tensor | Sequence[Tensor] | Network, inputs: Mapping[str, NDArray[Any]], **options: Any
) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """Compute a program's reference results: an array for one tensor, a dictionary by name for several or a network.

    ``inputs`` has an array for each input, by name, of exactly its shape and dtype. Arithmetic is on integers and wraps
    around at the width of each dtype; the result is exact. For a network this holds for its quantised layers, and the
    host CPU computes the other nodes. ``parameters`` binds the parameters of a program.

    Raises InputError if an input is missing, unknown or of another shape or dtype, and MemoryLimitError if arrays do
    not fit into memory.
    """
    if isinstance(outputs, Network):
        return network_reference(outputs, inputs, **options)
    return reference_of_tensors(outputs, inputs, **options)
