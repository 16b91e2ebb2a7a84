"""A compiled program: instructions, constants, and its DRAM segments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.configs.integers import integer
from lathe.isa.columnar_stream import Columns
from lathe.isa.encoding import decode, encode_columns
from lathe.isa.errors import ProgramError
from lathe.isa.instructions import Instruction
from lathe.isa.layout import Layout
from lathe.isa.program_file import read_archive, write_archive
from lathe.isa.reserved_bits import set_reserved_bits
from lathe.isa.table import MOST_TOKENS

UOPS = "uop"
"""Role and name of the segment of micro-ops."""
ROLES = ("instructions", UOPS, "constant", "input", "output", "temporary")
IMAGE_ROLES = (UOPS, "constant")
_IMAGE = "image/"


@dataclass(frozen=True)
class Segment:
    """A range of DRAM, [``address``, ``address + nbytes``) in bytes, and its content.

    ``role`` is one of instructions, uop, constant, input, output, temporary. ``layout`` is the physical layout of a
    tensor, which starts at ``address`` and may be shorter than the segment. ``tensor`` is the name of the array, by
    default the segment's: an input in two layouts has two segments of one tensor. ``loaded_early``: loads may also read
    bytes that no store has written yet; the values of these affect no result.
    """

    name: str
    role: str
    address: int
    nbytes: int
    layout: Layout | None = None
    tensor: str = ""
    loaded_early: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor", self.tensor or self.name)

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + self.nbytes

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the inverse of ``from_dict``."""
        layout = None if self.layout is None else self.layout.to_dict()
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"layout": layout}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Segment":
        """The segment that ``to_dict`` wrote; keys missing in files of earlier versions get their defaults."""
        layout = None if values["layout"] is None else Layout.from_dict(values["layout"])
        return cls(**{**values, "layout": layout})


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Instructions for one machine, with the memory that they run on.

    ``images`` holds the bytes of segments with role "uop" or "constant", by name, uint8. ``label_of`` is, for each
    instruction, the index into ``labels`` of the layer or stage that it belongs to. ``tokens_in`` are the counts of the
    four token queues before the launch (load→compute, compute→load, compute→store, store→compute). ``products``: the
    int8 multiply-accumulates of the algorithm, without those on padding; None if unknown.

    Raises :class:`ProgramError` when the components contradict each other.
    """

    config: HardwareConfig
    instructions: tuple[Instruction, ...]
    segments: tuple[Segment, ...]
    images: Mapping[str, NDArray[np.uint8]]
    labels: tuple[str, ...] = ()
    label_of: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    tokens_in: tuple[int, int, int, int] = (0, 0, 0, 0)
    products: int | None = None

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        ends = [f"{each.role} {each.tensor}" for each in (*self.inputs, *self.outputs)]
        return f"Program({', '.join([self.config.name, f'{len(self.instructions)} instructions', *ends])})"

    def __post_init__(self) -> None:
        _check_kinds(self)
        object.__setattr__(self, "instructions", tuple(self.instructions))
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "tokens_in", tuple(int(count) for count in self.tokens_in))
        if not self.labels and not len(self.label_of):
            object.__setattr__(self, "labels", ("program",))
            object.__setattr__(self, "label_of", np.zeros(len(self.instructions), np.int32))
        _check_segments(self)
        _check_images(self)
        _check_labels(self)
        if len(self.tokens_in) != 4 or min(self.tokens_in) < 0 or max(self.tokens_in) > MOST_TOKENS:
            raise ProgramError(
                f"tokens_in of a program must be four counts from 0 to {MOST_TOKENS}, not {self.tokens_in!r}. "
                "Correct the counts."
            )

    def efficiency(self, cycles: int) -> float | None:
        """``products`` as a fraction of the matrix core's peak in ``cycles``; None if unknown."""
        return None if self.products is None else self.products / (cycles * self.config.multipliers)

    @cached_property
    def columns(self) -> Columns:
        """The instructions as columns."""
        return Columns.of(self.instructions)

    @cached_property
    def encoded(self) -> NDArray[np.uint8]:
        """The instructions in binary form, (N, 16) uint8."""
        return encode_columns(self.config, self.columns)

    @property
    def inputs(self) -> tuple[Segment, ...]:
        """The segments that the caller fills, in order."""
        return tuple(segment for segment in self.segments if segment.role == "input")

    @property
    def outputs(self) -> tuple[Segment, ...]:
        """The segments that hold results, in order."""
        return tuple(segment for segment in self.segments if segment.role == "output")

    @property
    def insn_addr(self) -> int:
        """The byte address of the instruction stream."""
        return next(segment.address for segment in self.segments if segment.role == "instructions")

    @property
    def memory_end(self) -> int:
        """One past the last byte of DRAM that any segment covers."""
        return max(segment.end for segment in self.segments)

    def segment(self, name: str) -> Segment:
        """The segment with a name. Raises :class:`ProgramError` when there is none."""
        for segment in self.segments:
            if isinstance(name, str) and segment.name == name:
                return segment
        known = ", ".join(segment.name for segment in self.segments)
        raise ProgramError(f"The segment of a program must be one of {known}, not {shown(name)}. Correct the name.")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to a file atomically; :meth:`load` reads it back."""
        arrays = {"insns": self.encoded, "label_of": np.asarray(self.label_of, np.int32)}
        write_archive(path, self.header(), arrays | {_IMAGE + name: image for name, image in self.images.items()})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Program":
        """The program of a file that :meth:`save` wrote.

        Raises :class:`ProgramError` for a file that is truncated, foreign or of another version, and for instructions
        with reserved bits set.
        """
        return read_archive(path, cls._of_archive)

    @classmethod
    def _of_archive(cls, header: dict[str, Any], arrays: dict[str, Any]) -> "Program":
        """The program from its :meth:`header` and its arrays by name."""
        config = HardwareConfig.from_dict(header["config"])
        instructions = tuple(decode(config, arrays["insns"]))
        for each in set_reserved_bits(config, arrays["insns"]):
            raise ProgramError(f"{each.field} of instruction {each.instruction} must {each.contract}.")
        return cls(
            config=config,
            instructions=instructions,
            segments=tuple(Segment.from_dict(each) for each in header["segments"]),
            images={name.removeprefix(_IMAGE): array for name, array in arrays.items() if name.startswith(_IMAGE)},
            labels=tuple(header["labels"]),
            label_of=arrays["label_of"],
            tokens_in=tuple(header["tokens_in"]),
            products=header.get("products"),
        )

    def header(self) -> dict[str, Any]:
        """Everything but arrays, as plain values for JSON."""
        return {
            "config": self.config.to_dict(),
            "segments": [segment.to_dict() for segment in self.segments],
            "labels": list(self.labels),
            "tokens_in": list(self.tokens_in),
            "products": self.products,
        }


def _check_kinds(program: Program) -> None:
    """Check the types of the components."""

    def refuse(part: str, contract: str, value: object) -> NoReturn:
        raise ProgramError(f"{part} of a program must be {contract}, not {shown(value)}. Correct the argument.")

    if not isinstance(program.config, HardwareConfig):
        refuse("The machine", "a HardwareConfig", program.config)
    kinds: dict[str, Any] = {"instructions": Instruction, "segments": Segment, "labels": str}
    for part, kind in kinds.items():
        values = getattr(program, part)
        if not isinstance(values, Iterable) or isinstance(values, str):
            refuse(part, "a list", values)
        object.__setattr__(program, part, tuple(values))
        for value in getattr(program, part):
            if not isinstance(value, kind):
                refuse(part, f"a list of {'strings' if kind is str else part}", value)
    if not isinstance(program.images, Mapping):
        refuse("images", "a mapping of arrays by the names of segments", program.images)
    for array in (*program.images.values(), program.label_of):
        if not isinstance(array, np.ndarray):
            refuse("images and label_of", "arrays", array)
    counts = program.tokens_in
    if not isinstance(counts, Iterable) or any(integer(count) is None for count in counts):
        refuse("tokens_in", "four counts of at least 0", counts)
    if program.products is not None and (integer(program.products) is None or program.products < 0):
        refuse("products", "None or a count of at least 0", program.products)


def _check_overlaps(segments: Sequence[Segment]) -> None:
    """Raise ProgramError if segments overlap; temporaries may, since their live ranges may be disjoint."""
    furthest: Segment | None = None  # the last end among previous segments; among non-temporary ones
    lasting: Segment | None = None
    for after in sorted((each for each in segments if each.nbytes), key=lambda each: each.address):
        before = lasting if after.role == "temporary" else furthest
        if before is not None and before.end > after.address:
            raise ProgramError(
                f"Segment {after.name!r} must start at or after {before.end:#x}, where segment {before.name!r} ends, "
                f"not at {after.address:#x}. Move one of the two."
            )
        furthest = after if furthest is None or after.end > furthest.end else furthest
        if after.role != "temporary":
            lasting = after if lasting is None or after.end > lasting.end else lasting


def _check_segments(program: Program) -> None:
    names: set[str] = set()
    for segment in program.segments:
        if segment.role not in ROLES:
            raise ProgramError(
                f"role of segment {segment.name!r} must be one of {', '.join(ROLES)}, not {segment.role!r}. "
                "Correct the role."
            )
        if segment.name in names:
            raise ProgramError(
                f"The name of each segment must be unique, not {segment.name!r} twice. Rename one of the two."
            )
        names.add(segment.name)
        if integer(segment.address) is None or integer(segment.nbytes) is None:
            raise ProgramError(
                f"address and size of segment {segment.name!r} must be integers, not {shown(segment.address)} and "
                f"{shown(segment.nbytes)}. Correct the numbers."
            )
        if segment.end > 1 << program.config.address_bits:
            raise ProgramError(
                f"Segment {segment.name!r} must end below byte {1 << program.config.address_bits:#x}, where the "
                f"addresses of machine {program.config.name!r} end, not at {segment.end:#x}. Move or shorten it."
            )
        if segment.address < 0 or segment.nbytes < 0:
            raise ProgramError(
                f"address and size of segment {segment.name!r} must be at least 0, "
                f"not {segment.address} and {segment.nbytes}. Correct the numbers."
            )
        if segment.layout is not None and segment.layout.nbytes > segment.nbytes:
            raise ProgramError(
                f"The size of segment {segment.name!r} must be at least its layout's {segment.layout.nbytes} bytes, "
                f"not {segment.nbytes}. Enlarge the segment."
            )
    _check_overlaps(program.segments)
    streams = [segment for segment in program.segments if segment.role == "instructions"]
    needed = len(program.instructions) * INSTRUCTION_BYTES
    if len(streams) != 1 or streams[0].nbytes < needed:
        sizes = [segment.nbytes for segment in streams]
        raise ProgramError(
            f"A program must have one segment for its instructions, of at least {needed} bytes, not segments of "
            f"{sizes} bytes. Each instruction has {INSTRUCTION_BYTES} bytes."
        )


def _check_images(program: Program) -> None:
    expected = {segment.name: segment.nbytes for segment in program.segments if segment.role in IMAGE_ROLES}
    if set(expected) != set(program.images):
        raise ProgramError(
            f"The images of a program must be those of its uop and constant segments, {sorted(expected)}, "
            f"not {sorted(program.images)}. Give an image for each of them."
        )
    for name, image in program.images.items():
        if image.dtype != np.uint8 or image.shape != (expected[name],):
            raise ProgramError(
                f"The image of segment {name!r} must be an array of shape ({expected[name]},) and dtype uint8, "
                f"not {image.shape} and {image.dtype}. View the packed array's bytes."
            )


def _check_labels(program: Program) -> None:
    label_of = program.label_of
    if label_of.shape != (len(program.instructions),) or label_of.dtype.kind not in "iu":
        raise ProgramError(
            f"label_of of a program must be an array of {len(program.instructions)} integers, "
            f"not of shape {label_of.shape} and dtype {label_of.dtype}. Give one label for each instruction."
        )
    if len(label_of) and (label_of.min() < 0 or label_of.max() >= len(program.labels)):
        raise ProgramError(
            f"label_of of a program must hold indices from 0 to {len(program.labels) - 1}, "
            f"not {int(label_of.min())} to {int(label_of.max())}. Add the missing labels."
        )
