"""``autoschedule``: candidates by the compiler's model, decided by the simulator.

What is tried for a group of stages are the tilings that the model of the default schedule holds for the cheapest, said
in commands. The first candidate is the default schedule, the next are those for machines with less of a resource: they
fit, and so more of it costs no cycles because the model errs. Then groups take turns, the one with the most work first;
what is quicker is kept. The simulator counts the cycles of each, in timing-only mode. Nothing depends on time or on how
many cores there are: ``budget`` counts candidates.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.cache_rows import CachedSchedule
from lathe.autotune.primitive_trace import Step, TraceReplayer
from lathe.autotune.schedule_cache import ScheduleCache, key_of
from lathe.autotune.schedule_fingerprint import form_of
from lathe.autotune.search_space import TiledGroup, tiled_groups
from lathe.autotune.tuned_schedule import FoundSchedule, Tried
from lathe.configs import HardwareConfig, LatheError
from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.engines import simulate
from lathe.frontend import Tensor
from lathe.frontend.tensor.bind_parameters import program_parameters
from lathe.scheduler import BuildError, Schedule, bound, create_schedule
from lathe.scheduler.build import check_outputs
from lathe.scheduler.compile import emitted
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.derating import ALL_THERE_IS, MEMORIES, Derating
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.machine import check_machine
from lathe.scheduler.target.required_extensions import check_extensions

Made = TypeVar("Made")

DEFAULT_BUDGET = 16
WITH_LESS = tuple(
    less for parts in (1, 2, 4, 8) for memory in (*MEMORIES, "") if (less := Derating(parts, memory)) != ALL_THERE_IS
)
"""What tiles are tried for. The memories are the same for all machines, and scratchpads are halved again and again: a
machine with twice of something tries what the one without does."""


@wait_for_lock_once()
def autoschedule(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig,
    *,
    budget: int = DEFAULT_BUDGET,
    cache: ScheduleCache | bool = True,
) -> FoundSchedule:
    """The quickest schedule found for a program on a machine, to be given to ``lt.build``.

    ``budget``: how many candidates are built and timed by the simulator, at least 1; the first is the default schedule,
    so that what is found is never slower. A schedule that has been begun is completed: stages that commands have
    touched stay as they are, and the schedule given is not changed.

    What has been found for a program is kept (``ScheduleCache``; ``cache=False``: neither read nor written), by its
    content, the machine's, the budget and the version of Lathe, and its commands are checked again when they are read;
    that they map to instructions, when they are built (``lt.build`` with a budget searches anew where they do not).
    Begun schedules are not kept.

    The schedule prints as a script of public commands, those that it was begun with first; where one of these cannot be
    printed, the script goes on from the begun schedule. Raises BuildError for a budget below 1, a program with
    parameters that are not bound or an output that is not computed, and what ``build`` does where not even the default
    schedule fits (CapacityError says which memory lacks how much).

        >>> found = lt.autoschedule(output, cfg, budget=8)  # doctest: +SKIP
        >>> program = lt.build(found, [data, weights, output], cfg)  # doctest: +SKIP
    """
    check_machine(config, "autoschedule")
    number = checked_budget(budget, "autoschedule")
    given = program if isinstance(program, Schedule) else create_schedule(program)
    if program_parameters(given.program):
        raise BuildError(
            "program of autoschedule must have numbers for all its parameters, not open ones. Give them with lt.bind.",
            kind="argument",
        )
    check_outputs(given)
    kept = cache_for(program, cache, "autoschedule")
    before = None if kept is None else kept.read(key_of(given.program, config, number))
    found = None if before is None else _from_cache(given, config, before)
    return _searched(given, config, number, kept) if found is None else found


def build_or_retune(
    found: FoundSchedule,
    config: HardwareConfig,
    budget: int,
    kept: ScheduleCache | None,
    make: Callable[[FoundSchedule], Made],
) -> Made:
    """What ``make`` makes of a schedule that ``autoschedule`` has returned.

    Commands are legal before they map: a schedule that was read, and is refused now, is searched anew, and kept.
    """
    try:
        return make(found)
    except LatheError:
        if not found.was_kept:
            raise
    return make(_searched(create_schedule(found.program), config, budget, kept))


def _searched(given: Schedule, config: HardwareConfig, budget: int, kept: ScheduleCache | None) -> FoundSchedule:
    """What a search finds, kept in place of what was kept before."""
    search = _Search(given, config, budget)
    search.run()
    if kept is not None:
        key = key_of(given.program, config, budget)
        kept.write(key, CachedSchedule(tuple(search.steps()), search.best, tuple(search.tried)))
    return _found(given, config, search.steps(), search.best, search.tried)


def checked_budget(budget: int, where: str) -> int:
    """A budget as a plain integer. Raises BuildError for anything but a number of candidates."""
    number = integer(budget)
    if number is None or number < 1:
        raise BuildError(
            f"budget of {where} must be a number of candidates, at least 1, not {shown(budget)}. With 1, only the "
            "default schedule is tried.",
            kind="argument",
        )
    return number


def cache_for(program: object, cache: ScheduleCache | bool, where: str) -> ScheduleCache | None:
    """Where what is found for a program is kept; None where it is not, as for schedules that have been begun."""
    if isinstance(program, Schedule) or cache is False:
        return None
    if cache is True:
        return ScheduleCache.default()
    if not isinstance(cache, ScheduleCache):
        raise BuildError(
            f"cache of {where} must be a ScheduleCache, True or False, not {shown(cache)}.", kind="argument"
        )
    return cache


def _from_cache(given: Schedule, config: HardwareConfig, kept: CachedSchedule) -> FoundSchedule | None:
    """The schedule that was found before; None where its commands are refused, which is then looked for anew.

    So is one with other cycles than the quickest of those tried, which no search has.
    """
    if kept.cycles != min((each.cycles for each in kept.tried if each.cycles is not None), default=0):
        return None
    try:
        found = _found(given, config, kept.steps, kept.cycles, kept.tried)
    except LatheError:
        return None
    found.was_kept = True
    return found


def _found(
    given: Schedule, config: HardwareConfig, steps: Sequence[Step], cycles: int, tried: Sequence[Tried]
) -> FoundSchedule:
    found = FoundSchedule(given.program)
    Edit.reset_to(found, given.state)  # from where steps, which are commands, go on
    found.given = None if given.given is None else list(given.given)
    found.begun = None if given.given is None else tuple(given.given)
    TraceReplayer(found).run(steps)
    found.steps, found.cycles, found.tried, found.machine = tuple(steps), cycles, tuple(tried), config.name
    least = bound(list(given.program), config)
    found.bound, found.limit = least.cycles, least.limit
    return found


def _in_order(chosen: Mapping[str, Sequence[Step]], groups: Sequence[TiledGroup]) -> list[Step]:
    """What is said of the whole program, and the steps of each group, in the order of the program."""
    return [step for name in ("", *(group.name for group in groups)) for step in chosen.get(name, ())]


class _Search:
    """Tries candidates until the budget is spent; ``chosen`` has the steps of each group that is not left open."""

    def __init__(self, given: Schedule, config: HardwareConfig, budget: int) -> None:
        self.given = given
        self.config = config
        self.left = budget
        self.tried: list[Tried] = []
        self.chosen: dict[str, tuple[Step, ...]] = {}
        self.best = 0
        self.groups: list[TiledGroup] = []
        self.timed: dict[Hashable, int] = {}
        """Cycles by the forms of completed schedules: candidates may be alike."""

    def steps(self) -> list[Step]:
        """The steps of all groups, in the order of the program."""
        return _in_order(self.chosen, self.groups)

    def run(self) -> None:
        """The default schedule first, and those for less; then each group's tilings in turn.

        At last those that are left open as they are, in commands.
        """
        self.best = self._cycles({}, "default schedule", may_fail=False) or 0
        if self.left == 0:
            return
        self._try_with_less()
        if self.left == 0:
            return
        best = self.given.fork()
        TraceReplayer(best).run(self.steps())
        self.groups = tiled_groups(best, self.config, self.left + 1)
        if not self.groups:
            return
        by_work = sorted(self.groups, key=lambda group: -group.estimates[0])
        for number in range(1, max(len(group.tilings) for group in self.groups)):
            for group in by_work:
                if number < len(group.tilings) and self.left > 1:
                    self._try({group.name: group.tilings[number]}, f"{group.name}: tiling {number + 1}")
        rest = {group.name: group.tilings[0] for group in self.groups if group.name not in self.chosen}
        if rest and self.left:
            self._try(rest, "the default tilings in commands", or_equal=True)

    def _try_with_less(self) -> None:
        """What the default schedule is for machines with less: the model may like it too little here."""
        if self.given.state.derating != ALL_THERE_IS:
            return  # somebody has said for which machine tiles are chosen
        for less in WITH_LESS:
            if self.left:
                share = "all" if less.scratchpads == 1 else f"1/{less.scratchpads}"
                memory = f"a {less.memory}" if less.memory else "its"
                step = Step("tile_for", less.memory, factor=less.scratchpads)
                self._try({"": (step,)}, f"tiles for {memory} memory and {share} of each scratchpad")

    def _try(self, more: dict[str, tuple[Step, ...]], what: str, or_equal: bool = False) -> None:
        trial = {**self.chosen, **more}
        cycles = self._cycles(trial, what)
        if cycles is not None and (cycles < self.best or (or_equal and cycles == self.best)):
            self.best, self.chosen = cycles, trial

    def _cycles(self, chosen: dict[str, tuple[Step, ...]], what: str, may_fail: bool = True) -> int | None:
        """Cycles of a candidate, which counts; None if a command or the compiler refuses it."""
        self.left -= 1
        schedule = self.given.fork()
        try:
            TraceReplayer(schedule).run(_in_order(chosen, self.groups))
            check_extensions(schedule, self.config)
            completed = run_pipeline(schedule, self.config)
            form = form_of(completed)
            if form not in self.timed:
                made = emitted(completed, self.config, {})
                self.timed[form] = simulate(made.program, timing_only=True).cycles
        except LatheError:
            if not may_fail:
                raise
            self.tried.append(Tried(what, None))
            return None
        self.tried.append(Tried(what, self.timed[form]))
        return self.timed[form]
