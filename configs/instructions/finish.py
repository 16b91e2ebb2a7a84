"""FINISH: the end of the instruction stream."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import Format
from lathe.configs.instructions.codes import Opcode, Unit
from lathe.configs.instructions.fields import HEAD
from lathe.configs.instructions.row import Kind, Row


@dataclass(frozen=True, slots=True)
class Finish:
    """Mark the end of the stream; executed by compute."""

    opcode: ClassVar[Opcode] = Opcode.FINISH

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


FINISH = Row(
    Finish,
    Format("bare", HEAD),
    Kind.FINISH,
    Unit.COMPUTE,
    "Marks the end of the stream. A launch ends when FINISH has been executed and every unit is idle.",
    "finished = True",
)
