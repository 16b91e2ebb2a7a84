"""Faults of the simulator, which is compared with the correct RTL."""

from collections.abc import Mapping

from lathe.sim import ReplayResult
from mutations import simulator_time, simulator_values
from mutations.cases import Case, calm_cases
from mutations.fault import Kind
from mutations.nets import NETS, caught_on, collected, pages_after, values_wrong


def verdicts() -> dict[str, str]:
    """Simulate the cases: the nets that catch the fault, each with its first case."""
    return collected(calm_cases(), look)


def look(case: Case) -> Mapping[str, str]:
    """The nets that catch the fault on a case, each with the difference."""
    right, ran = case.right, case.ran  # computed before a fault is planted
    assert len(right) == len(ran)
    try:
        results = case.simulated()
    except NameError:  # a mistake in the fault itself
        raise
    except Exception as error:  # any other exception catches the fault
        return {"crash": f"{case.name}: {error!r}"}
    nets = caught_on(case, results, ran)
    (first, *_) = results
    if isinstance(first, ReplayResult) and values_wrong(case, pages_after(case, 0, first)):
        nets.add("values")
    return dict.fromkeys(nets, case.name)


FAULTS = (*simulator_values.FAULTS, *simulator_time.FAULTS)
SIMULATOR = Kind("simulator", FAULTS, NETS, verdicts)
