"""``explain`` with a budget: the best schedule, its bottleneck, and its cycles on machines with more resources.

One resource at a time is doubled (latency: halved), and the program built and simulated again: with the autotuned and
the default schedule, of which the faster counts, or with the user's schedule, completed for that machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lathe.autotune.autoschedule import autoschedule, build_or_retune, cache_for, checked_budget
from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.tuned_schedule import TunedSchedule
from lathe.configs import ConfigError, HardwareConfig, LatheError, load_config
from lathe.engines import simulate
from lathe.frontend import Tensor, placeholders
from lathe.scheduler import Explanation, Schedule, bound
from lathe.scheduler import explain as explained
from lathe.scheduler.build import build_compiled
from lathe.scheduler.inspect.what_if import Alternative, WhatIfReport
from lathe.scheduler.schedule_trace import bind_parameters
from lathe.sim import Counters

MOST = 5
"""The number of other candidates that are reported."""
WORTH = 0.01
"""The fraction of the cycles that more of a resource must save for it to be the bottleneck."""
IDLE = 0.05
"""The fraction of the cycles that compute must wait for a resource outside of compute to be the bottleneck."""

Shares: TypeAlias = tuple[tuple[str, float], ...]


@wait_for_lock_once()
def explain(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig | None = None,
    *,
    parameters: Mapping[str, int] | None = None,
    budget: int = 0,
) -> Explanation:
    """Explain which rule matches the chunks of a schedule on a machine, or which constraint fails first.

    See ``lathe.scheduler.explain``. A ``budget`` of 1 or more also autotunes with that many candidates and fills
    ``outlook``: the best schedule, the others with their cycles, the bottleneck, and the cycles on machines with twice
    the bus, half the latency, or twice a scratchpad or a block dimension, at the cost of a build for each. Raises what
    ``autoschedule`` does.
    """
    if budget == 0 and not isinstance(budget, bool):
        return explained(program, config, parameters=parameters)
    bound_program, _ = bind_parameters(program, parameters, "explain")
    given = explained(bound_program, config)
    if not given.maps:
        return given
    machine = load_config(given.machine) if config is None else config
    tuned, scheduled = autoschedule(bound_program, machine, budget=budget), isinstance(program, Schedule)
    return build_or_retune(
        tuned,
        machine,
        checked_budget(budget, "explain"),
        cache_for(bound_program, True, "explain"),
        lambda each: replace(explained(each, machine), outlook=_outlook(each, scheduled, machine)),
    )


def _outlook(tuned: TunedSchedule, scheduled: bool, config: HardwareConfig) -> WhatIfReport:
    """The report on a schedule; ``scheduled``: it completes a schedule of the user."""
    counters = _counters(tuned, config)
    ran = [each for each in tuned.tried if each.cycles is not None]
    best = min(ran, key=lambda each: each.cycles or 0)
    others = sorted((each for each in ran if each is not best), key=lambda each: each.cycles or 0)
    more = [(each, *_with_more(tuned, scheduled, config, each)) for each in _resources(config)]
    busy = _busy(counters)
    return WhatIfReport(
        best.what,
        counters.cycles,
        bound(list(tuned.program), config).cycles,
        _limit(counters.cycles, busy, [(resource, cycles) for resource, cycles, _ in more]),
        busy,
        tuple(Alternative(each.what, each.cycles) for each in others[:MOST]),
        tuple(Alternative(resource.more, cycles, reason) for resource, cycles, reason in more),
    )


def _limit(cycles: int, busy: Shares, more: "Sequence[tuple[_Resource, int | None]]") -> str:
    """The bottleneck: the resource that compute waits for, or else the kind of work that takes it most cycles."""
    waits = 1 - sum(share for _, share in busy)
    gains = [(reached, resource.name) for resource, reached in more if reached is not None and resource.feeds]
    best, name = min(gains, default=(cycles, ""))
    if waits > IDLE and best < (1 - WORTH) * cycles:
        return name
    return max(busy, key=lambda each: each[1])[0]


def _with_more(
    tuned: TunedSchedule, scheduled: bool, config: HardwareConfig, resource: "_Resource"
) -> tuple[int | None, str]:
    """The cycles on a machine with more of a resource, or None and the reason why there are none."""
    try:
        machine = config.with_(**resource.change)
    except ConfigError as error:
        return None, _in_short(error)
    programs: list[Schedule | Sequence[Tensor]] = [tuned] if scheduled else [tuned, list(tuned.program)]
    ran, refused = [], ""
    for each in programs:
        try:
            ran.append(_counters(each, machine).cycles)
        except LatheError as error:
            refused = _in_short(error)
    return min(ran, default=None), "" if ran else refused


def _in_short(error: LatheError) -> str:
    """An error's reason, without the file or machine that it names, and without the remedy."""
    fault = error.fault if isinstance(error, ConfigError) else None
    if fault is not None:
        return f"{fault.thing} must be {fault.contract}"
    return str(error).splitlines()[0].split(". ")[0].removesuffix(".")


def _counters(program: Schedule | Sequence[Tensor], config: HardwareConfig) -> Counters:
    """The counters of a program on a machine, with its own or the default schedule. Raises what ``build`` does."""
    outputs = list(program.program) if isinstance(program, Schedule) else list(program)
    compiled = build_compiled(program, [*placeholders(outputs), *outputs], config)
    return simulate(compiled.program, timing_only=True).counters


def _busy(counters: Counters) -> Shares:
    """The fractions of the cycles that the compute unit spends on GEMM, on resets, and on its other work."""
    core = counters.gemm_operations + counters.reset_operations
    work = {
        "GEMM": counters.gemm_operations,
        "resets": counters.reset_operations,
        "ALU and loads of compute": counters.units["compute"].busy - core,
    }
    return tuple((what, count / counters.cycles) for what, count in work.items() if count > 0)


@dataclass(frozen=True)
class _Resource:
    """A resource that a machine may have more of: it ``feeds`` the compute unit, or belongs to it."""

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
