"""What ``explain`` tells with a budget: the schedule that wins, what bounds it, and what more of the machine would buy.

Each resource is doubled by itself, latency halved, and the program built and timed anew: by the schedule found and by
the default one, of which the quicker counts, or by a schedule that was begun, completed for that machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lathe.autotune.autoschedule import autoschedule, build_or_retune, cache_for, checked_budget
from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.tuned_schedule import FoundSchedule
from lathe.configs import ConfigError, HardwareConfig, LatheError, load_config
from lathe.engines import simulate
from lathe.frontend import Tensor, placeholders
from lathe.scheduler import Explanation, Schedule, bound
from lathe.scheduler import explain as explained
from lathe.scheduler.build import build_compiled
from lathe.scheduler.inspect.what_if import Alternative, WhatIfReport
from lathe.scheduler.schedule_trace import with_numbers
from lathe.sim import Counters

MOST = 5
"""Candidates that are told."""
WORTH = 0.01
"""The part of the cycles that more of a resource must save for it to be what bounds a program."""
IDLE = 0.05
"""The part of the cycles that the compute unit must wait for something else to bound the program."""

Shares: TypeAlias = tuple[tuple[str, float], ...]


@wait_for_lock_once()
def explain(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig | None = None,
    *,
    parameters: Mapping[str, int] | None = None,
    budget: int = 0,
) -> Explanation:
    """Which rule takes the chunks of a schedule on a machine, and if none does, which constraint fails first.

    It is ``lathe.scheduler.explain``, which says more, and with a ``budget`` of 1 or more looks around besides
    (``outlook``): the best of so many schedules, the others with their cycles, what bounds the program, and its cycles
    on machines with twice the bus, half the latency, or twice a scratchpad or a block. Builds take as long as one
    for each. Raises BuildError for what cannot be searched.
    """
    if budget == 0 and not isinstance(budget, bool):
        return explained(program, config, parameters=parameters)
    bound_program, _ = with_numbers(program, parameters, "explain")
    given = explained(bound_program, config)
    if not given.maps:
        return given
    machine = load_config(given.machine) if config is None else config
    found, begun = autoschedule(bound_program, machine, budget=budget), isinstance(program, Schedule)
    return build_or_retune(
        found,
        machine,
        checked_budget(budget, "explain"),
        cache_for(bound_program, True, "explain"),
        lambda each: replace(explained(each, machine), outlook=_outlook(each, begun, machine)),
    )


def _outlook(found: FoundSchedule, begun: bool, config: HardwareConfig) -> WhatIfReport:
    counters = _counters(found, config)
    ran = [each for each in found.tried if each.cycles is not None]
    best = min(ran, key=lambda each: each.cycles or 0)
    others = sorted((each for each in ran if each is not best), key=lambda each: each.cycles or 0)
    more = [(each, *_with_more(found, begun, config, each)) for each in _resources(config)]
    busy = _busy(counters)
    return WhatIfReport(
        best.what,
        counters.cycles,
        bound(list(found.program), config).cycles,
        _limit(counters.cycles, busy, [(resource, cycles) for resource, cycles, _ in more]),
        busy,
        tuple(Alternative(each.what, each.cycles) for each in others[:MOST]),
        tuple(Alternative(resource.more, cycles, reason) for resource, cycles, reason in more),
    )


def _limit(cycles: int, busy: Shares, more: "Sequence[tuple[_Resource, int | None]]") -> str:
    """What the compute unit works on most, or what it waits for."""
    waits = 1 - sum(share for _, share in busy)
    gains = [(given, resource.name) for resource, given in more if given is not None and resource.feeds]
    best, name = min(gains, default=(cycles, ""))
    if waits > IDLE and best < (1 - WORTH) * cycles:
        return name
    return max(busy, key=lambda each: each[1])[0]


def _with_more(
    found: FoundSchedule, begun: bool, config: HardwareConfig, resource: "_Resource"
) -> tuple[int | None, str]:
    """The cycles with twice a resource, or why there are none.

    They are those of a schedule that was begun, completed for that machine, or else of the better one.
    """
    try:
        machine = config.with_(**resource.change)
    except ConfigError as error:
        return None, _in_short(error)
    programs: list[Schedule | Sequence[Tensor]] = [found] if begun else [found, list(found.program)]
    ran, refused = [], ""
    for each in programs:
        try:
            ran.append(_counters(each, machine).cycles)
        except LatheError as error:
            refused = _in_short(error)
    return min(ran, default=None), "" if ran else refused


def _in_short(error: LatheError) -> str:
    """What an error says, without the file or machine it says it of, and without the remedy."""
    fault = error.fault if isinstance(error, ConfigError) else None
    if fault is not None:
        return f"{fault.thing} must be {fault.contract}"
    return str(error).splitlines()[0].split(". ")[0].removesuffix(".")


def _counters(program: Schedule | Sequence[Tensor], config: HardwareConfig) -> Counters:
    """What a program does on a machine, by its schedule or the default one. Raises what ``build`` does."""
    outputs = list(program.program) if isinstance(program, Schedule) else list(program)
    made = build_compiled(program, [*placeholders(outputs), *outputs], config)
    return simulate(made.program, timing_only=True).counters


def _busy(counters: Counters) -> Shares:
    """The parts of the cycles that the compute unit spends on products, on resets, and on the rest of its work."""
    core = counters.gemm_operations + counters.reset_operations
    parts = {
        "GEMM": counters.gemm_operations,
        "resets": counters.reset_operations,
        "ALU and loads of compute": counters.units["compute"].busy - core,
    }
    return tuple((what, count / counters.cycles) for what, count in parts.items() if count > 0)


@dataclass(frozen=True)
class _Resource:
    """What a machine may have more of: ``feeds`` the compute unit, or is part of it."""

    name: str
    more: str
    change: Mapping[str, int]
    feeds: bool = True


def _resources(config: HardwareConfig) -> Iterator[_Resource]:
    memory = config.memory
    yield _Resource("the bus", f"a bus of {2 * memory.bus_bits} bits", {"memory.bus_bits": 2 * memory.bus_bits})
    if memory.latency:
        half = memory.latency // 2
        yield _Resource("the memory's latency", f"a latency of {half}", {"memory.latency": half})
    for name in ("inp", "wgt", "acc", "uop"):
        field = f"{name}_buffer_bytes"
        yield _Resource(f"the size of {name}", f"twice the {name}", {field: 2 * getattr(config, field)})
    for name in ("batch", "block_in", "block_out"):
        yield _Resource(name, f"twice the {name}", {name: 2 * getattr(config, name)}, feeds=False)
