"""Cells as Python expressions.

Every value is a number from 0 to 2 ** width − 1, or False or True for one bit. A `truth` may be any Python value with
the truth value of the bit. `and`, `or` and `if` evaluate their operands lazily, and so does the machine's function: an
operand that is inlined into its only user is not computed when it is not needed.
"""

from collections.abc import Callable

from lathe.rtl.engines.compiled.bits import (
    Bits,
    Source,
    number_of,
    sign_extended,
    sliced,
    width_of,
    without_leading_zeros,
)
from lathe.rtl.engines.compiled.sources import Cell, Choice

# Shift amounts wider than this are compared with the width first, so that numbers do not grow without bound.
SAFE_AMOUNT_BITS = 8


def expression(cell: Cell) -> str:
    """The expression of a cell whose operands are constants."""
    return Writer({}).cell(cell)


class Writer:
    """Writes expressions. `names` has the sources that are variables, all others are inlined.

    `reads` collects the variables that the expressions read.
    """

    def __init__(self, names: dict[Source, str]) -> None:
        self.names = names
        self.reads: set[Source] = set()

    def source(self, source: Source) -> str:
        """The value of a source."""
        name = self.names.get(source)
        if name is not None:
            self.reads.add(source)
            return name
        if isinstance(source, Cell):
            return self.cell(source)
        assert isinstance(source, Choice), f"{source} has no name"
        ((path, value),) = source.cases
        conditions = [self.truth(bit) if holds else f"not {self.truth(bit)}" for bit, holds in path]
        return f"({self.value(value)} if {' and '.join(conditions)} else {self.value(source.default)})"

    def piece(self, source: Source, low: int, width: int) -> str:
        """Bits of a source, as a number."""
        text = self.source(source)
        if width == source.width:
            return text
        if low == 0:
            return f"({text} & {_mask(width)})"
        if low + width == source.width:
            return f"({text} >> {low})"
        return f"({text} >> {low} & {_mask(width)})"

    def value(self, bits: Bits) -> str:
        """Bits as a number."""
        number = number_of(bits)
        if number is not None:
            return _number(number)
        if len(bits) == 1:
            source, low, width = bits[0]
            assert source is not None, "numbers must have been folded"
            return self.piece(source, low, width)
        base = sign_extended(bits)
        if base is not None:
            return f"({self.signed(base)} & {_mask(width_of(bits))})"
        terms = []
        position = at = number = 0
        while at < len(bits):
            source, low, width = bits[at]
            copies = 1
            if source is None:
                number |= low << position
            else:
                while width == 1 and at + copies < len(bits) and bits[at + copies] == bits[at]:
                    copies += 1
                terms.append(self._placed(source, low, width, copies, position))
            position += width * copies
            at += copies
        if number:
            terms.append(_number(number))
        return f"({' | '.join(terms)})"  # even if single, since a shift binds more weakly than a sum

    def truth(self, bit: Bits) -> str:
        """One bit as a condition."""
        source, low, width = bit[0]
        if source is None:
            return str(bool(low))
        if source not in self.names and isinstance(source, Cell) and source.width == 1:
            return self._condition(source)
        if width == source.width:
            return self.source(source)
        return f"({self.source(source)} & {_number(1 << low)})"

    def signed(self, bits: Bits) -> str:
        """Bits as a signed number, in two's complement."""
        number = number_of(bits)
        width = width_of(bits)
        if number is not None:
            return f"({number - (number >> width - 1 << width)})"
        if bits[-1][0] is None and not bits[-1][1] >> bits[-1][2] - 1:
            return self.value(without_leading_zeros(bits))
        base = sign_extended(bits) or bits
        sign = _number(1 << width_of(base) - 1)
        return f"(({self.value(base)} ^ {sign}) - {sign})"

    def cell(self, cell: Cell) -> str:
        """The value of a cell."""
        kind = cell.kind
        if kind in CONDITIONS:
            return self._condition(cell, values=True)
        operands, width = cell.operands, cell.width
        if kind in ARITHMETIC:
            return self._arithmetic(kind, operands, width)
        a = operands[0]
        if kind == "mux":
            return f"({self.value(operands[1])} if {self.truth(a)} else {self.value(operands[2])})"
        if kind in BITWISE:
            return f"({self.value(a)} {BITWISE[kind]} {self.value(operands[1])})"
        if kind == "invert":
            return f"({self.value(a)} ^ {_mask(width)})"
        if kind == "negate":
            return f"(-{self.value(a)} & {_mask(width)})"
        b = without_leading_zeros(operands[1])
        amount = self.value(b)
        if kind == "shl":
            text = f"{self.value(a)} << {amount} & {_mask(width)}"
            return f"({text})" if width_of(b) <= SAFE_AMOUNT_BITS else f"({text} if {amount} < {width} else 0)"
        if kind == "shr":
            return f"({self.value(a)} >> {amount})"
        if kind == "sar":
            return f"({self.signed(a)} >> {amount} & {_mask(width)})"
        assert kind in ("part", "spart"), f"a cell {kind} is not supported"
        whole = self.signed(a) if kind == "spart" else self.value(a)
        offset = amount if cell.stride == 1 else f"{amount} * {cell.stride}"
        return f"({whole} >> {offset} & {_mask(width)})"

    def _condition(self, cell: Cell, *, values: bool = False) -> str:
        """A cell of one bit, as a truth or, with `values`, as a value."""
        kind, operands = cell.kind, cell.operands
        write: Callable[[Bits], str] = self.value if values else self.truth
        if kind in ("and", "or"):
            return f"({write(operands[0])} {kind} {write(operands[1])})"
        if kind == "not":
            return f"(not {self.truth(operands[0])})"
        if kind == "any":
            return self._any(operands[0], values)
        if kind == "eq":
            return self._equal(operands[0], operands[1])
        if kind == "xor":
            return f"({self.value(operands[0])} != {self.value(operands[1])})"
        if kind in COMPARISONS:
            number = self.signed if kind[0] == "s" else self.value
            first, second = operands
            if kind[0] != "s":
                first, second = without_leading_zeros(first), without_leading_zeros(second)
            return f"({number(first)} {kind.lstrip('s')} {number(second)})"
        if kind == "parity":
            return f"({self.value(operands[0])}.bit_count() & 1)"
        return self.cell(cell)

    def _any(self, bits: Bits, values: bool) -> str:
        terms = []
        for source, low, width in bits:
            assert source is not None, "constants must have been folded"
            whole = width == source.width
            text = self.source(source) if whole else f"({self.source(source)} & {_number((1 << width) - 1 << low)})"
            terms.append(f"{text} != 0" if values and (width > 1 or not whole) else text)
        return f"({' or '.join(terms)})"

    def _equal(self, first: Bits, second: Bits) -> str:
        number = number_of(second)
        if number is None or len(first) == 1:
            return f"({self.value(without_leading_zeros(first))} == {self.value(without_leading_zeros(second))})"
        terms = []
        position = 0
        for piece in first:
            expected = number_of(sliced(second, position, piece[2]))
            assert expected is not None, "the second operand must be a number"
            if piece[2] == 1:
                terms.append(self.truth((piece,)) if expected else f"not {self.truth((piece,))}")
            else:
                terms.append(f"{self.value((piece,))} == {_number(expected)}")
            position += piece[2]
        terms[-1:] = [f"({terms[-1]}) != 0"] if first[-1][2] == 1 else terms[-1:]
        return f"({' and '.join(f'({term})' for term in terms)})" if len(terms) > 1 else f"({terms[0]})"

    def _arithmetic(self, kind: str, operands: tuple[Bits, ...], width: int) -> str:
        """Arithmetic modulo 2 ** width; a result that cannot reach that is not masked."""
        texts = []
        most: list[int | None] = []  # bits of the greatest value, None if it may be negative
        for bits in operands:
            base = sign_extended(bits)
            if base is not None:
                texts.append(self.signed(base))
                most.append(None)
            else:
                trimmed = without_leading_zeros(bits)
                texts.append(self.value(trimmed))
                most.append(width_of(trimmed))
        text = f"{texts[0]} {ARITHMETIC[kind]} {texts[1]}"
        first, second = most
        if first is not None and second is not None:
            if kind == "add" and max(first, second) < width:
                return f"({text})"
            if kind == "mul" and first + second <= width:
                return f"({text})"
        return f"({text} & {_mask(width)})"

    def _placed(self, source: Source, low: int, width: int, copies: int, position: int) -> str:
        """Bits of a source at a position of a number."""
        if copies > 1:
            text = f"(-{self.piece(source, low, width)} & {_mask(copies)})"
        elif position == low and width < source.width:
            return f"{self.source(source)} & {_number((1 << width) - 1 << low)}"
        else:
            text = self.piece(source, low, width)
        return f"{text} << {position}" if position else text


ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
BITWISE = {"bitand": "&", "bitor": "|", "bitxor": "^"}
COMPARISONS = ("<", ">", "<=", ">=", "s<", "s>", "s<=", "s>=")
CONDITIONS = ("and", "or", "not", "any", "eq", "xor", "parity", *COMPARISONS)


def _mask(width: int) -> str:
    return _number((1 << width) - 1)


def _number(value: int) -> str:
    return str(value) if value < 1024 else hex(value)
