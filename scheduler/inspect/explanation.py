"""What ``explain`` finds: chunk classes, buffers and refusals, as values, as text, and as plain values for JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lathe.configs.encoding import GEMM_BEGIN
from lathe.configs.errors import RefusalKind
from lathe.configs.extensions import PURPOSES
from lathe.configs.html_repr import repr_html
from lathe.scheduler.inspect.what_if import WhatIfReport


@dataclass(frozen=True)
class Pad:
    """``before`` and ``after``: the first and last iterations of a loop in which a chunk gets ``value`` for data.

    ``value`` is None where several constants take turns.
    """

    loop: str
    before: int
    after: int
    value: int | None

    def __str__(self) -> str:
        return f"{self.loop} ({self.before}, {self.after})"


@dataclass(frozen=True)
class ChunkClass:
    """Chunks of a stage that are alike but for offsets.

    ``role``: "map" for a statement without reduction, "init", "update" or "reduce" (both) for one with. ``loops`` are
    (name, iterations), outermost first. ``first`` holds the values of the loops outside for the first of the ``count``
    chunks. ``asked`` is the rule that they go to; ``taken`` holds the rules that took them with the number of parts of
    one chunk, since a chunk may be cut in parts, and is empty if they were refused. ``constraint`` is then the first
    constraint that failed, in ``part``. ``instructions`` counts those of all chunks of the class.

    On machines with the extension ``gemm_begin``: ``begun`` chunks begin sums with products that are written, not
    added, or, of the class "init", have no zeros to write. If some have nevertheless, ``zeros`` says why.
    ``extensions``: those that the instructions make use of, without which the machine would have to do it otherwise.
    """

    stage: str
    scope: str
    role: str
    loops: tuple[tuple[str, int], ...]
    count: int
    pads: tuple[Pad, ...]
    first: tuple[tuple[str, int], ...]
    asked: str
    taken: tuple[tuple[str, int], ...]
    instructions: int
    constraint: str = ""
    part: str = ""
    begun: int = 0
    zeros: str = ""
    extensions: tuple[str, ...] = ()

    @property
    def maps(self) -> bool:
        """Whether the chunks become instructions."""
        return not self.constraint

    def __str__(self) -> str:
        loops = ", ".join(f"{name} in 0..{extent}" for name, extent in self.loops)
        pads = ""
        if self.pads:
            value = "" if self.pads[0].value is None else f" of {self.pads[0].value}"
            pads = f", pads{value} around {', '.join(map(str, self.pads))}"
        line = f"{self.count} × {self.role}({loops}){pads}: "
        if self.maps:
            parts = ", ".join(rule if count == 1 else f"{count} × {rule}" for rule, count in self.taken) or "nothing"
            count = f"{self.instructions} instruction{'' if self.instructions == 1 else 's'}"
            return f"{line}{parts}, {count}{self._sums}{self._by}"
        at = ", ".join(f"{name}={value}" for name, value in self.first)
        asked = f" by {self.asked!r}" if self.asked else ""
        where = f" in {self.part}" if self.part else f" at {at}" if at else ""
        return f"{line}REFUSED{asked}{where}: {self.constraint}"

    @property
    def _sums(self) -> str:
        """How sums begin."""
        if self.zeros:
            return f"; zeros are needed: {self.zeros}"
        if self.begun and self.role == "init":
            return "; sums begin without zeros"
        return f"; {self.begun} begin{'s' if self.begun == 1 else ''} sums" if self.begun else ""

    @property
    def _by(self) -> str:
        """The extensions at work, but for that of which `_sums` speaks."""
        others = [each for each in self.extensions if each != GEMM_BEGIN]
        return f"; by {' and '.join(others)}" if others else ""


@dataclass(frozen=True)
class BufferUse:
    """A scratchpad buffer of a stage: ``slots`` times ``elements``, for a box of ``values`` per dimension.

    ``temporary``: what the stage needs while it computes.
    """

    stage: str
    scope: str
    elements: int
    slots: int
    values: tuple[int, ...]
    temporary: bool

    def __str__(self) -> str:
        taken = f"{self.elements} elements" if self.slots == 1 else f"{self.slots} × {self.elements} elements"
        if self.temporary:
            return f"temporaries of {self.stage}: {taken}"
        return f"{self.stage}: {taken} ({'×'.join(map(str, self.values)) or '1'} values)"


@dataclass(frozen=True)
class Refusal:
    """Why a stage, or the whole program (``stage`` is empty), does not map, whatever rules say to its chunks.

    ``scope`` and ``excess`` (elements that are too many) are those of a scratchpad that is too small, ``kind`` that of
    the error.
    """

    error: str
    message: str
    stage: str = ""
    scope: str = ""
    excess: int = 0
    kind: RefusalKind = "machine"

    def __str__(self) -> str:
        return f"{f'stage {self.stage}: ' if self.stage else ''}{self.message}"


@dataclass(frozen=True, repr=False)
class Explanation:
    """How a schedule meets a machine: ``str`` of it, and what a prompt shows, is the text, ``to_dict`` plain values.

    ``depths``: the elements of each scratchpad. ``units``: by name, which unit computes stages that either could, and
    why. ``packed``: by name, the index maps by which the host packs inputs otherwise than the schedule says.
    ``outlook``: what else was tried, where that was asked for.
    """

    machine: str
    depths: tuple[tuple[str, int], ...]
    buffers: tuple[BufferUse, ...]
    classes: tuple[ChunkClass, ...]
    refusals: tuple[Refusal, ...]
    units: tuple[tuple[str, str], ...] = ()
    packed: tuple[tuple[str, str], ...] = ()
    outlook: WhatIfReport | None = None

    _repr_html_ = repr_html

    @property
    def maps(self) -> bool:
        """Whether ``build`` makes a program of the schedule."""
        return not self.refusals and all(each.maps for each in self.classes)

    @property
    def refused(self) -> tuple[ChunkClass, ...]:
        """The classes of chunks that no rule takes."""
        return tuple(each for each in self.classes if not each.maps)

    def of(self, stage: str) -> tuple[ChunkClass, ...]:
        """The classes of a stage, by name."""
        return tuple(each for each in self.classes if each.stage == stage)

    def users_of(self, extension: str) -> tuple[str, ...]:
        """The stages whose instructions make use of an extension."""
        return tuple(dict.fromkeys(each.stage for each in self.classes if extension in each.extensions))

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values for JSON."""
        return {"maps": self.maps, **asdict(self)}

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        chunks = sum(each.count for each in self.classes)
        if self.maps:
            verdict = "maps"
        else:
            reasons = [f"{len(self.refused)} refused"] if self.refused else []
            if self.refusals:
                reasons.append(f"{len(self.refusals)} other reason{'s' * (len(self.refusals) > 1)}")
            verdict = f"does not map ({', '.join(reasons)})"
        yield f"on {self.machine}: {verdict}; {chunks} chunks of {len(self.classes)} classes"
        for refusal in self.refusals:
            yield f"  {refusal}"
        for scope, depth in self.depths:
            own = [buffer for buffer in self.buffers if buffer.scope == scope]
            if own:
                yield f"{scope}, {depth} elements:"
                yield from (f"  {buffer}" for buffer in own)
        for name, index_map in self.packed:
            yield f"{name} is packed by the host as {index_map}, for what is read of it"
        for stage in dict.fromkeys(each.stage for each in self.classes):
            own_classes = self.of(stage)
            yield f"{stage} in {own_classes[0].scope}:"
            yield from (f"  {reason}" for name, reason in self.units if name == stage)
            yield from (f"  {each}" for each in own_classes)
        for extension in PURPOSES:
            if users := self.users_of(extension):
                yield purpose_of(extension, users)
        if self.outlook is not None:
            yield from self.outlook.lines()


def purpose_of(extension: str, users: Iterable[str]) -> str:
    """A line on what makes use of an extension, and why."""
    return f"{extension} in {', '.join(users)}: {PURPOSES[extension]}"
