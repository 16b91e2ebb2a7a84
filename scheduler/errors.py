"""Errors of schedules and builds."""

from dataclasses import dataclass, field

from lathe.configs.errors import LatheError, RefusalKind


class ScheduleError(LatheError):
    """A schedule primitive cannot be applied; the schedule is unchanged."""

    def __init__(self, message: str, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Witness:
    """Two statement instances and the cell that prove a schedule illegal.

    ``producer`` and ``consumer`` map axis names to values, ``cell`` is an index of ``tensor`` that the consumer reads
    before (or without) the producer's write.
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
    """Two values that share a cell while the first is live: ``consumer`` would read the value of ``overwriter``.

    ``cell`` is an index of buffer ``tensor``; the producer's value in it is the one that the consumer needs.
    """

    overwriter_stage: str = ""
    overwriter: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        cell = f"{self.tensor}[{', '.join(map(str, self.cell))}]"
        reader = _instance(self.consumer_stage, self.consumer) if self.consumer_stage else "the host CPU"
        return (
            f"{_instance(self.producer_stage, self.producer)} and {_instance(self.overwriter_stage, self.overwriter)} "
            f"are both in {cell}, and the second is written before {reader} reads the first"
        )


class LegalityError(ScheduleError):
    """A schedule would read a value that is not computed yet, freed or overwritten; ``witness`` shows one."""

    def __init__(self, message: str, witness: Witness) -> None:
        super().__init__(message, kind="legality")
        self.witness = witness


@dataclass(frozen=True)
class PaddingWitness:
    """An instance that a primitive would add, with what it would read and write.

    ``stage`` at ``instance`` (axis names to values) reads ``reads`` (tensor, cell, and what is known of the cell) to
    write ``cell`` of its own tensor, whose value another instance, or a padding contract, determines.
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
    """Instances that a primitive adds would change a value that is relied on; ``witness`` shows one of them."""

    def __init__(self, message: str, witness: PaddingWitness) -> None:
        super().__init__(message, kind="legality")
        self.witness = witness


class ParallelismError(LegalityError):
    """An annotated loop would not be parallel: its ``witness`` shows what one iteration reads and another writes."""


class EmitError(LatheError):
    """A chunk maps to no instruction: the message names the chunk, the rule and the constraint that failed.

    So do ``chunk``, ``rule`` and ``constraint``; they are empty if no rule was tried.
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
    """A tile exceeds a scratchpad: the message has the scratchpad, the excess, and the largest tile that fits.

    ``scope`` and ``excess`` (in vectors) give the same to the search for tiles.
    """

    def __init__(self, message: str, scope: str = "", excess: int = 0, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind
        self.scope = scope
        self.excess = excess


class BuildError(LatheError):
    """The arguments of ``build`` or ``lower`` describe no program, or none for this machine."""

    def __init__(self, message: str, *, kind: RefusalKind) -> None:
        super().__init__(message)
        self.kind = kind


class ValidationError(LatheError):
    """A compiled program that does not compute what its tensors define, found during a build with ``check``.

    If all emission rules are built-in, and nothing undefined is used, it is a bug of the compiler.
    """

    kind: RefusalKind = "legality"  # the program's semantics forbid it
