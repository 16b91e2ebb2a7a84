"""The errors that a schedule can cause."""

from dataclasses import dataclass, field

from lathe.configs.errors import LatheError, RefusalKind


class ScheduleError(LatheError):
    """A schedule command cannot be carried out; the schedule is as it was before."""

    def __init__(self, message: str, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Witness:
    """Two statement instances and the cell that proves a schedule illegal.

    ``producer`` and ``consumer`` map axis names to values, ``cell`` is an index of ``tensor`` that the consumer reads
    before (or without) the producer's having written it.
    """

    tensor: str
    cell: tuple[int, ...]
    producer_stage: str
    producer: dict[str, int]
    consumer_stage: str
    consumer: dict[str, int]

    def __str__(self) -> str:
        cell = ", ".join(str(index) for index in self.cell)
        return (
            f"{_instance(self.consumer_stage, self.consumer)} reads {self.tensor}[{cell}] that "
            f"{_instance(self.producer_stage, self.producer)} writes"
        )


def _instance(stage: str, values: dict[str, int]) -> str:
    return f"{stage}({', '.join(f'{name}={value}' for name, value in values.items())})"


@dataclass(frozen=True)
class StorageWitness(Witness):
    """Two values that share a cell while the first is live: what ``overwriter`` writes, ``consumer`` finds instead.

    ``cell`` is an index of buffer ``tensor``; the producer's value there is the one that the consumer wants.
    """

    overwriter_stage: str = ""
    overwriter: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        cell = f"{self.tensor}[{', '.join(map(str, self.cell))}]"
        reader = _instance(self.consumer_stage, self.consumer) if self.consumer_stage else "the host"
        return (
            f"{_instance(self.producer_stage, self.producer)} and {_instance(self.overwriter_stage, self.overwriter)} "
            f"are both in {cell}, and the second is written before {reader} reads the first"
        )


class LegalityError(ScheduleError):
    """A schedule would read a value that is not there; ``witness`` shows one: not computed yet, gone, overwritten."""

    def __init__(self, message: str, witness: Witness) -> None:
        super().__init__(message, kind="legality")
        self.witness = witness


@dataclass(frozen=True)
class PaddingWitness:
    """An instance that a command would add, and what it would do.

    ``stage`` at ``instance`` (axis names to values) reads ``reads`` (tensor, cell, and what is known of the cell) for
    ``cell`` of its own tensor, which another instance, or a contract, has made what it must be.
    """

    stage: str
    instance: dict[str, int]
    cell: tuple[int, ...]
    reads: tuple[tuple[str, tuple[int, ...], str], ...]

    def __str__(self) -> str:
        point = ", ".join(f"{name}={value}" for name, value in self.instance.items())
        reads = " and ".join(f"{name}{list(cell)} ({what})" for name, cell, what in self.reads) or "nothing"
        return f"{self.stage}({point}), for {self.stage}{list(self.cell)}, reads {reads}"


class PaddingError(ScheduleError):
    """Instances that a command adds would change a value that somebody relies on; ``witness`` shows one of them."""

    def __init__(self, message: str, witness: PaddingWitness) -> None:
        super().__init__(message, kind="legality")
        self.witness = witness


class ParallelismError(LegalityError):
    """A marked loop would not be parallel: its ``witness`` shows what one iteration reads and another makes."""


class EmitError(LatheError):
    """A chunk does not map to instructions: names the chunk, the rule and the constraint that failed.

    ``chunk``, ``rule`` and ``constraint`` say the same to programs; they are empty if no rule was asked.
    """

    def __init__(
        self, message: str, chunk: str = "", rule: str = "", constraint: str = "", *, kind: RefusalKind
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.chunk = chunk
        self.rule = rule
        self.constraint = constraint


class CapacityError(LatheError):
    """A tile exceeds a scratchpad: names the scratchpad, by how much, and the largest tile that fits.

    ``scope`` and ``excess`` (in elements) say the same to the search for tiles.
    """

    def __init__(self, message: str, scope: str = "", excess: int = 0, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind
        self.scope = scope
        self.excess = excess


class BuildError(LatheError):
    """What is given to ``build`` or ``lower`` does not describe a program, or none for this machine."""

    def __init__(self, message: str, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind


class ValidationError(LatheError):
    """A program that does not compute what its tensors say, found while it was built with ``check``.

    If every emission rule is Lathe's own, and nothing that is undefined is used, it is a fault of the compiler.
    """

    kind: RefusalKind = "legality"  # what the program means forbids it
