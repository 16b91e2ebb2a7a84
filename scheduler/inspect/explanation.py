"""The result of ``explain``: chunk classes, buffers and refusals as values, which print as text and convert to JSON."""

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
    """Padding along a loop of a chunk: iterations ``before`` and ``after`` the data; ``value``: None if it varies."""

    loop: str
    before: int
    after: int
    value: int | None

    def __str__(self) -> str:
        return f"{self.loop} ({self.before}, {self.after})"


@dataclass(frozen=True)
class ChunkClass:
    """Chunks of a stage that are equal except for offsets.

    ``role``: "map" for a statement without reduction, "init", "update" or "reduce" (both) for one with. ``loops`` are
    (name, iterations), outermost first. ``first``: the values of the enclosing loops for the first of the ``count``
    chunks. ``asked``: the emission rule selected for them; ``taken``: the rules that took them, with the number of
    slices of a chunk, since a chunk may be split; empty if they were refused. ``constraint`` is then the first
    constraint that failed, in the slice ``part``. ``instructions`` counts those of all chunks of the class.

    On machines with the extension ``gemm_begin``: ``begun`` chunks have GEMMs that overwrite accumulators, or, with
    role "init", elided resets. If resets are needed, ``zeros`` says why. ``extensions``: those that the instructions
    use.
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
        """Whether a rule takes the chunks."""
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
        """How accumulators are initialised."""
        if self.zeros:
            return f"; zeros are needed: {self.zeros}"
        if self.begun and self.role == "init":
            return "; resets are elided"
        return f"; {self.begun} overwrite{'s' if self.begun == 1 else ''} accumulators" if self.begun else ""

    @property
    def _by(self) -> str:
        """The extensions in use, except ``gemm_begin``, which ``_sums`` shows."""
        others = [each for each in self.extensions if each != GEMM_BEGIN]
        return f"; by {' and '.join(others)}" if others else ""


@dataclass(frozen=True)
class BufferUse:
    """A scratchpad buffer of a stage: ``slots`` times ``elements`` vectors, for a box of ``values`` per dimension.

    ``temporary``: a buffer that the stage needs during its computation only.
    """

    stage: str
    scope: str
    elements: int
    slots: int
    values: tuple[int, ...]
    temporary: bool

    def __str__(self) -> str:
        taken = f"{self.elements} vectors" if self.slots == 1 else f"{self.slots} × {self.elements} vectors"
        if self.temporary:
            return f"temporaries of {self.stage}: {taken}"
        return f"{self.stage}: {taken} ({'×'.join(map(str, self.values)) or '1'} values)"


@dataclass(frozen=True)
class Refusal:
    """Why a stage, or the whole program (``stage`` is empty), does not map, apart from the rules for its chunks.

    ``scope`` and ``excess``: the scratchpad that is too small, and by how many vectors; ``kind``: that of the error.
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
    """How a schedule maps to a machine: ``str`` and ``repr`` are the text, ``to_dict`` has plain values.

    ``depths``: vectors of each scratchpad. ``units``: by stage, why the matrix core or the ALU computes it, if both
    could. ``packed``: by input, the index maps that passes have added to its layout, in which the host CPU packs it.
    ``outlook``: the sensitivity analysis, if one was requested.
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
        """Whether ``build`` accepts the schedule."""
        return not self.refusals and all(each.maps for each in self.classes)

    @property
    def refused(self) -> tuple[ChunkClass, ...]:
        """The classes of chunks that no rule takes."""
        return tuple(each for each in self.classes if not each.maps)

    def of(self, stage: str) -> tuple[ChunkClass, ...]:
        """The classes of a stage, by name."""
        return tuple(each for each in self.classes if each.stage == stage)

    def users_of(self, extension: str) -> tuple[str, ...]:
        """The stages whose instructions use an extension."""
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
                yield f"{scope}, {depth} vectors:"
                yield from (f"  {buffer}" for buffer in own)
        for name, index_map in self.packed:
            yield f"the host packs {name} as {index_map}, for the stages that read it"
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
    """The line of text on the users of an extension and its purpose."""
    return f"{extension} in {', '.join(users)}: {PURPOSES[extension]}"
