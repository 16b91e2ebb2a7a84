"""``autoschedule``: candidates ranked by the cost model, decided by the simulator.

The first candidate is the default schedule; the next are the default schedules for derated machines, so that a larger
machine is not slower than a smaller one where the cost model errs. Then come, for each group of fused stages, the
tilings that the cost model ranks best, written as schedule primitives; groups take turns, the one with the most work
first. A faster candidate replaces the best so far. The simulator counts cycles in timing-only mode. The result depends
neither on elapsed time nor on the number of cores: ``budget`` counts candidates.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.cache_rows import CachedSchedule
from lathe.autotune.group_tilings import TiledGroup, tiled_groups
from lathe.autotune.primitive_trace import Step, TraceReplayer
from lathe.autotune.schedule_cache import ScheduleCache, key_of
from lathe.autotune.schedule_fingerprint import fingerprint
from lathe.autotune.tuned_schedule import Candidate, TunedSchedule
from lathe.configs import HardwareConfig, LatheError
from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.engines import simulate
from lathe.frontend import Tensor
from lathe.frontend.tensor.bind_parameters import program_parameters
from lathe.scheduler import BuildError, Schedule, bound, create_schedule
from lathe.scheduler.build import check_outputs
from lathe.scheduler.compile import compile_lowered
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.derating import MEMORIES, NO_DERATING, Derating
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.required_extensions import check_extensions
from lathe.scheduler.target.target import check_machine

Built = TypeVar("Built")

DEFAULT_BUDGET = 16
DERATINGS = tuple(
    each for divisor in (1, 2, 4, 8) for memory in (*MEMORIES, "") if (each := Derating(divisor, memory)) != NO_DERATING
)
"""Derated machines to choose tiles for. Since their memories are the same for all machines and scratchpads are halved,
a machine with twice a resource also tries the tiles of the machine without."""


@wait_for_lock_once()
def autoschedule(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig,
    *,
    budget: int = DEFAULT_BUDGET,
    cache: ScheduleCache | bool = True,
) -> TunedSchedule:
    """Search for the fastest schedule of a program on a machine; the result is passed to ``lt.build``.

    ``budget``: the number of candidates that are built and simulated, at least 1; the first is the default schedule, so
    the result is never slower than it. A partial schedule is completed: stages that the user has scheduled stay as they
    are, and the given schedule is not changed.

    Results are cached (``ScheduleCache``; ``cache=False``: neither read nor written) by the content of program and
    machine, the budget and Lathe's sources; those for a user's Schedule are not. The primitives of a cached result are
    checked again when it is read, and its instruction selection when it is built (``lt.build`` with a budget searches
    again if that fails).

    The schedule prints as a script of public primitives, the user's first; where one of the user's cannot be printed,
    the script is a function of the user's schedule. Raises BuildError for a budget below 1, a program with unbound
    parameters or an output that is not computed, and what ``build`` raises if not even the default schedule compiles.

        >>> found = lt.autoschedule(output, cfg, budget=8)  # doctest: +SKIP
        >>> program = lt.build(found, [data, weights, output], cfg)  # doctest: +SKIP
    """
    check_machine(config, "autoschedule")
    number = checked_budget(budget, "autoschedule")
    given = program if isinstance(program, Schedule) else create_schedule(program)
    if program_parameters(given.program):
        raise BuildError(
            "Cannot autoschedule a program with unbound parameters. Bind them with lt.bind.", kind="argument"
        )
    check_outputs(given)
    used_cache = cache_for(program, cache, "autoschedule")
    cached = None if used_cache is None else used_cache.read(key_of(given.program, config, number))
    tuned = None if cached is None else _from_cache(given, config, cached)
    return _search(given, config, number, used_cache) if tuned is None else tuned


def build_or_retune(
    tuned: TunedSchedule,
    config: HardwareConfig,
    budget: int,
    cache: ScheduleCache | None,
    make: Callable[[TunedSchedule], Built],
) -> Built:
    """Apply ``make``, which builds, to a schedule from ``autoschedule``; if that fails for a cached one, search again.

    Replaying a cached schedule checks that its primitives are legal, not that it maps to instructions.
    """
    try:
        return make(tuned)
    except LatheError:
        if not tuned.was_kept:
            raise
    return make(_search(create_schedule(tuned.program), config, budget, cache))


def _search(given: Schedule, config: HardwareConfig, budget: int, cache: ScheduleCache | None) -> TunedSchedule:
    """Run the search; its result overwrites the cached one."""
    search = _Search(given, config, budget)
    search.run()
    if cache is not None:
        key = key_of(given.program, config, budget)
        cache.write(key, CachedSchedule(tuple(search.steps()), search.best, tuple(search.tried)))
    return _tuned(given, config, search.steps(), search.best, search.tried)


def checked_budget(budget: int, where: str) -> int:
    """A budget as a plain integer. Raises BuildError unless it is an integer of at least 1."""
    number = integer(budget)
    if number is None or number < 1:
        raise BuildError(
            f"budget of {where} must be a number of candidates, at least 1, not {shown(budget)}. A budget of 1 takes "
            "the default schedule.",
            kind="argument",
        )
    return number


def cache_for(program: object, cache: ScheduleCache | bool, where: str) -> ScheduleCache | None:
    """The cache for a program's schedules; None where none is used, as for a user's Schedule."""
    if isinstance(program, Schedule) or cache is False:
        return None
    if cache is True:
        return ScheduleCache.default()
    if not isinstance(cache, ScheduleCache):
        raise BuildError(
            f"cache of {where} must be a ScheduleCache, True or False, not {shown(cache)}.", kind="argument"
        )
    return cache


def _from_cache(given: Schedule, config: HardwareConfig, cached: CachedSchedule) -> TunedSchedule | None:
    """The schedule of a cached result; None if its primitives are refused.

    None also if its cycles are not those of its fastest candidate, which no search writes.
    """
    if cached.cycles != min((each.cycles for each in cached.tried if each.cycles is not None), default=0):
        return None
    try:
        tuned = _tuned(given, config, cached.steps, cached.cycles, cached.tried)
    except LatheError:
        return None
    tuned.was_kept = True
    return tuned


def _tuned(
    given: Schedule, config: HardwareConfig, steps: Sequence[Step], cycles: int, tried: Sequence[Candidate]
) -> TunedSchedule:
    tuned = TunedSchedule(given.program)
    Edit.reset_to(tuned, given.state)  # the steps continue from the given schedule
    tuned.given = None if given.given is None else list(given.given)
    tuned.begun = None if given.given is None else tuple(given.given)
    TraceReplayer(tuned).run(steps)
    tuned.steps, tuned.cycles, tuned.tried, tuned.machine = tuple(steps), cycles, tuple(tried), config.name
    least = bound(list(given.program), config)
    tuned.bound, tuned.limit = least.cycles, least.limit
    return tuned


def _in_order(chosen: Mapping[str, Sequence[Step]], groups: Sequence[TiledGroup]) -> list[Step]:
    """The steps of the whole program (key ""), then those of each group, in program order."""
    return [step for name in ("", *(group.name for group in groups)) for step in chosen.get(name, ())]


class _Search:
    """Tries candidates until the budget is used up; ``chosen``: the best steps by group, for groups that have some."""

    def __init__(self, given: Schedule, config: HardwareConfig, budget: int) -> None:
        self.given = given
        self.config = config
        self.remaining = budget
        self.tried: list[Candidate] = []
        self.chosen: dict[str, tuple[Step, ...]] = {}
        self.best = 0
        self.groups: list[TiledGroup] = []
        self.timed: dict[Hashable, int] = {}
        """Cycles by fingerprint of the lowered schedule, so that equal candidates are simulated once."""

    def steps(self) -> list[Step]:
        """The best steps of all groups, in program order."""
        return _in_order(self.chosen, self.groups)

    def run(self) -> None:
        """Try the default schedule, those for derated machines, then each group's tilings in turn.

        The last candidate writes the default tilings of the remaining groups as primitives, for the printed script.
        """
        self.best = self._cycles({}, "default schedule", may_fail=False) or 0
        if self.remaining == 0:
            return
        self._try_derated()
        if self.remaining == 0:
            return
        best = self.given.fork()
        TraceReplayer(best).run(self.steps())
        self.groups = tiled_groups(best, self.config, self.remaining + 1)
        if not self.groups:
            return
        by_work = sorted(self.groups, key=lambda group: -group.estimates[0])
        for number in range(1, max(len(group.tilings) for group in self.groups)):
            for group in by_work:
                if number < len(group.tilings) and self.remaining > 1:
                    self._try({group.name: group.tilings[number]}, f"{group.name}: tiling {number + 1}")
        rest = {group.name: group.tilings[0] for group in self.groups if group.name not in self.chosen}
        if rest and self.remaining:
            self._try(rest, "the default tilings as primitives", or_equal=True)

    def _try_derated(self) -> None:
        """Try the default schedules for derated machines, which the cost model may rank too low for this one."""
        if self.given.state.derating != NO_DERATING:
            return  # the user has chosen the derating with tile_for
        for each in DERATINGS:
            if self.remaining:
                share = "all" if each.scratchpads == 1 else f"1/{each.scratchpads}"
                memory = f"a {each.memory}" if each.memory else "its"
                step = Step("tile_for", each.memory, factor=each.scratchpads)
                self._try({"": (step,)}, f"tiles for {memory} memory and {share} of each scratchpad")

    def _try(self, more: dict[str, tuple[Step, ...]], what: str, or_equal: bool = False) -> None:
        trial = {**self.chosen, **more}
        cycles = self._cycles(trial, what)
        if cycles is not None and (cycles < self.best or (or_equal and cycles == self.best)):
            self.best, self.chosen = cycles, trial

    def _cycles(self, chosen: dict[str, tuple[Step, ...]], what: str, may_fail: bool = True) -> int | None:
        """Cycles of a candidate, which uses up budget; None if a primitive or the compiler refuses it."""
        self.remaining -= 1
        schedule = self.given.fork()
        try:
            TraceReplayer(schedule).run(_in_order(chosen, self.groups))
            check_extensions(schedule, self.config)
            lowered = run_pipeline(schedule, self.config)
            key = fingerprint(lowered)
            if key not in self.timed:
                compiled = compile_lowered(lowered, self.config, {})
                self.timed[key] = simulate(compiled.program, timing_only=True).cycles
        except LatheError:
            if not may_fail:
                raise
            self.tried.append(Candidate(what, None))
            return None
        self.tried.append(Candidate(what, self.timed[key]))
        return self.timed[key]
