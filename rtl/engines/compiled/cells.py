"""Creates cells, with constant folding, simplification, and common subexpression elimination."""

from lathe.rtl.engines.compiled.bits import Bits, constant, joined, number_of, sliced, width_of, without_leading_zeros
from lathe.rtl.engines.compiled.expressions import expression
from lathe.rtl.engines.compiled.sources import Cell, Literal, Path

ZERO, ONE = constant(0, 1), constant(1, 1)
BITWISE = {"&": "and", "|": "or", "^": "xor"}
COMPARISONS = {"u<": "<", "u>": ">", "u<=": "<=", "u>=": ">=", "s<": "s<", "s>": "s>", "s<=": "s<=", "s>=": "s>="}
ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
SHIFTS = {"<<": "shl", "u>>": "shr", "s>>": "sar"}


class CellBuilder:
    """Creates cells; `order` has them such that operands come before their users."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, tuple[Bits, ...], int, int], Bits] = {}
        self.order: list[Cell] = []

    def cell(self, kind: str, operands: tuple[Bits, ...], width: int, stride: int = 0) -> Bits:
        """A cell of this kind: a new one, an existing equal one, or a constant if all operands are constant."""
        key = (kind, operands, width, stride)
        bits = self.known.get(key)
        if bits is None:
            created = Cell(kind, operands, width, stride)
            if all(number_of(operand) is not None for operand in operands):
                bits = constant(int(eval(expression(created))), width)
            else:
                self.order.append(created)
                bits = created.bits
            self.known[key] = bits
        return bits

    def operator(self, name: str, inputs: tuple[Bits, ...]) -> Bits:
        """An operator of Amaranth's netlist."""
        first = inputs[0]
        width = width_of(first)
        if len(inputs) == 1:
            return self._unary(name, first, width)
        if name == "m":
            return self.mux(*inputs)
        second = inputs[1]
        if name in BITWISE:
            return self._bitwise(BITWISE[name], first, second)
        if name in ("==", "!="):
            equal = self.equal(first, second)
            return equal if name == "==" else self.inverse(equal)
        if name in COMPARISONS:
            return self.cell(COMPARISONS[name], inputs, 1)
        if name in SHIFTS:
            return self._shift(SHIFTS[name], first, second, width)
        assert name in ARITHMETIC, f"operator {name} of the netlist is not supported"
        if name in "+-" and number_of(second) == 0:
            return first
        if name == "+" and number_of(first) == 0:
            return second
        return self.cell(ARITHMETIC[name], inputs, width)

    def inverse(self, bit: Bits) -> Bits:
        """NOT of one bit."""
        source = bit[0][0]
        if isinstance(source, Cell) and source.kind == "not":
            return source.operands[0]
        return self.cell("not", (bit,), 1)

    def any(self, bits: Bits) -> Bits:
        """Whether any bit is set."""
        if any(source is None and low for source, low, _ in bits):
            return ONE
        rest = joined((piece,) for piece in bits if piece[0] is not None)
        if width_of(rest) <= 1:
            return rest or ZERO
        return self.cell("any", (rest,), 1)

    def conjunction(self, bits: list[Bits]) -> Bits:
        """AND of single bits."""
        found = ONE
        for bit in bits:
            found = self._bitwise("and", found, bit)
        return found

    def equal(self, first: Bits, second: Bits) -> Bits:
        """Whether two values are equal; a constant operand becomes the second."""
        if number_of(first) is not None:
            first, second = second, first
        number = number_of(second)
        if first == second:
            return ONE
        if number == 0:
            return self.inverse(self.any(first))
        if width_of(first) == 1:
            return first if number == 1 else self.inverse(self._bitwise("xor", first, second))
        trimmed = without_leading_zeros(first)
        if number is not None:
            if number >> width_of(trimmed):
                return ZERO
            return (
                self.equal(trimmed, constant(number, width_of(trimmed)))
                if trimmed != first
                else self.cell("eq", (first, second), 1)
            )
        return self.cell("eq", (first, second), 1)

    def matches(self, value: Bits, patterns: tuple[str, ...]) -> Bits:
        """Whether a value matches one of some patterns of 0, 1 and - (any), the highest bit first."""
        found = ZERO
        for pattern in patterns:
            bits = pattern[::-1]
            positions = [position for position, character in enumerate(bits) if character != "-"]
            chosen = joined(sliced(value, position, 1) for position in positions)
            number = sum((bits[position] == "1") << at for at, position in enumerate(positions))
            one = self.equal(chosen, constant(number, len(positions))) if positions else ONE
            found = self._bitwise("or", found, one)
        return found

    def mux(self, chosen: Bits, high: Bits, low: Bits) -> Bits:
        """`high` when `chosen`, else `low`."""
        number = number_of(chosen)
        if number is not None or high == low:
            return high if number else low
        source = chosen[0][0]
        if isinstance(source, Cell) and source.kind == "not":
            return self.mux(source.operands[0], low, high)
        if width_of(high) == 1:
            if number_of(low) == 0:
                return self._bitwise("and", chosen, high)
            if number_of(high) == 1:
                return self._bitwise("or", chosen, low)
            if number_of(high) == 0:
                return self._bitwise("and", self.inverse(chosen), low)
            if number_of(low) == 1:
                return self._bitwise("or", self.inverse(chosen), high)
        return self.cell("mux", (chosen, high, low), width_of(high))

    def part(self, value: Bits, signed: bool, offset: Bits, width: int, stride: int) -> Bits:
        """`width` bits from `offset` times `stride` on; beyond the value, zeros or its sign."""
        number = number_of(offset)
        size = width_of(value)
        if number is not None:
            low = number * stride
            fill = sliced(value, size - 1, 1) if signed else ZERO
            inside = max(0, min(width, size - low))
            return joined([sliced(value, low, inside), *[fill] * (width - inside)])
        return self.cell("spart" if signed else "part", (value, offset), width, stride)

    def literal(self, bit: Bits) -> Literal | bool:
        """A bit as a literal, or as a truth value if it is constant."""
        number = number_of(bit)
        if number is not None:
            return bool(number)
        source = bit[0][0]
        if isinstance(source, Cell) and source.kind == "not":
            return source.operands[0], False
        return bit, True

    def holds(self, path: Path) -> Bits:
        """A path as one bit: the AND of its literals."""
        return self.conjunction([bit if value else self.inverse(bit) for bit, value in path])

    def _unary(self, name: str, bits: Bits, width: int) -> Bits:
        if name in ("b", "r|"):
            return self.any(bits)
        if name == "~":
            return self.inverse(bits) if width == 1 else self.cell("invert", (bits,), width)
        if name == "r&":
            return bits if width == 1 else self.equal(bits, constant(-1, width))
        if name == "r^":
            return self.cell("parity", (bits,), 1)
        assert name == "-", f"operator {name} of the netlist is not supported"
        return self.cell("negate", (bits,), width)

    def _bitwise(self, kind: str, first: Bits, second: Bits) -> Bits:
        """A bitwise operation; where an operand is constant, it needs no cell but at most an inversion."""
        found: list[Bits] = []
        position, width = 0, width_of(first)
        while position < width:
            size = min(_stretch(first, position), _stretch(second, position))
            a, b = sliced(first, position, size), sliced(second, position, size)
            found.append(self._stretch_of(kind, a, b, size))
            position += size
        return joined(found)

    def _stretch_of(self, kind: str, a: Bits, b: Bits, size: int) -> Bits:
        if number_of(a) is not None:
            a, b = b, a
        number = number_of(b)
        full = (1 << size) - 1
        if a == b:
            return a if kind != "xor" else constant(0, size)
        if number == 0:
            return b if kind == "and" else a
        if number == full:
            if kind == "xor":
                return self.inverse(a) if size == 1 else self.cell("invert", (a,), size)
            return a if kind == "and" else b
        return self.cell(kind if size == 1 else f"bit{kind}", (a, b), size)

    def _shift(self, kind: str, value: Bits, amount: Bits, width: int) -> Bits:
        number = number_of(amount)
        if number is None:
            return self.cell(kind, (value, amount), width)
        number = min(number, width)
        if kind == "shl":
            return joined([constant(0, number), sliced(value, 0, width - number)])
        fill = constant(0, number) if kind == "shr" else joined([sliced(value, width - 1, 1)] * number)
        return joined([sliced(value, number, width - number), fill])


def _stretch(bits: Bits, position: int) -> int:
    """The number of bits from a position on that are constant with one value, or that are not constant."""
    at = 0
    found = 0
    for source, low, width in bits:
        if at + width > position:
            if source is None:
                if found:
                    break
                number = low >> max(0, position - at)
                size = at + width - max(position, at)
                flipped = number ^ (1 << size) - 1 if number & 1 else number
                return (flipped & -flipped).bit_length() - 1 if flipped else size
            found += at + width - max(position, at)
        at += width
    return found
