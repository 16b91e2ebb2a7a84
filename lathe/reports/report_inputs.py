"""The run that a page shows, from a program, a compiled network, a result file, a model, or a script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lathe.builder import build, capture_builds
from lathe.configs import HardwareConfig, load_config
from lathe.engines import simulate
from lathe.frontend import placeholders
from lathe.isa import Program
from lathe.networks.network import Network
from lathe.networks.program import NetworkProgram
from lathe.networks.run import NetworkResult, simulate_network
from lathe.reports.result_file import read_result
from lathe.reports.run_model import Run, run_of_network, run_of_results
from lathe.scheduler import Schedule
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scripts import ScriptError, run_script
from lathe.sim import Result

FUNCTIONS = ("build", "main", "schedule")
"""The first of these functions that a script defines is called."""


def run_of_program(name: str, program: Program) -> Run:
    """A timing-only simulation of a program."""
    return run_of_results(name, [simulate(program, timing_only=True)])


def run_of_network_program(name: str, program: NetworkProgram, made: Mapping[int, Compiled] | None = None) -> Run:
    """A timing-only simulation of a compiled network."""
    return run_of_network(name, program, simulate_network(program, timing_only=True).results, made)


def run_of_result_file(path: Path) -> Run:
    """The stored result of a file. Raises ReportError if the file has none."""
    ran, results = read_result(path)
    if isinstance(ran, NetworkProgram):
        return run_of_network(path.name, ran, results)
    return run_of_results(path.name, results)


def run_of_model(name: str, network: Network, machine: HardwareConfig) -> Run:
    """A timing-only simulation of a network, compiled for a machine, with its schedules."""
    with _collected() as made:
        program = network.build(machine)
    return run_of_network_program(name, program, {id(each.program): each for each in made})


def run_of_script(path: Path, config_name: str, check: Callable[[Sequence[HardwareConfig]], None]) -> Run:
    """The results of a script, or else timing-only simulations of what it builds, with its schedules.

    A schedule that it returns is built. Of builds for several machines, the run has those for the last one. ``check``
    is called with all machines. Raises ScriptError for a script that builds nothing.
    """
    with _collected() as made:
        try:
            found = run_script(path, FUNCTIONS, "result", config_name)
        except SystemExit as end:
            if end.code:
                raise
            found = None  # sys.exit() at the end of a script is no error
        if isinstance(found, Schedule):
            build(found, [*placeholders(found.program), *found.program], load_config(config_name))
    compiled = {id(each.program): each for each in made}
    results = found.results if isinstance(found, NetworkResult) else (found,)
    own = [each for each in results if isinstance(each, Result) and each.trace is not None]
    if own:
        check([own[0].program.config])
        return run_of_results(path.name, own, compiled)
    if not made:
        raise ScriptError(
            f"The script {str(path)!r} must build a program with lt.build, or return a schedule or the result of "
            "lt.simulate, but does none of these. Call lt.build."
        )
    check([each.program.config for each in made])
    machine = made[-1].program.config
    programs = [each.program for each in made if each.program.config == machine]
    return run_of_results(path.name, [simulate(each, timing_only=True) for each in programs], compiled)


@contextmanager
def _collected() -> Iterator[list[Compiled]]:
    found: list[Compiled] = []
    with capture_builds(found.append):
        yield found
