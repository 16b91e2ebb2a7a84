"""Faults of the RTL, each planted while `tiny` is elaborated, and compared with the correct simulator."""

from collections.abc import Mapping

from lathe.rtl.cache import as_built
from lathe.rtl.engines import pysim
from lathe.rtl.engines.compiled.machine import Machine
from mutations import hardware_computing, hardware_moving
from mutations.cases import MACHINE, Case, cases
from mutations.fault import Kind
from mutations.nets import NETS, caught_on, collected, values_wrong


def verdicts() -> dict[str, str]:
    """Build the machine with the fault: the nets that catch it, each with its first case."""
    machine = pysim.build(as_built(MACHINE))
    return collected(cases(), lambda case: look(machine, case))


def look(machine: Machine, case: Case) -> Mapping[str, str]:
    """The nets that catch the fault on a case, each with its description."""
    try:
        outcomes = case.run_on(machine)
    except AssertionError as error:  # a violation of the bus protocol, or no end of the launch
        return {"bus": f"{case.name}: {error}"}
    except (IndexError, ValueError) as error:  # more ends than starts, or invalid enumeration values
        return {"crash": f"{case.name}: {error!r}"}
    nets = caught_on(case, case.right, outcomes)
    if values_wrong(case, outcomes[0].memory.pages):
        nets.add("values")
    return dict.fromkeys(nets, case.name)


FAULTS = (*hardware_computing.FAULTS, *hardware_moving.FAULTS)
HARDWARE = Kind("RTL", FAULTS, NETS, verdicts)
