"""Values of the netlist as pieces of sources, so that slicing and concatenation need neither names nor cells."""

from collections.abc import Iterable

# A piece is (source, low, width): bits of a source from `low` on. A constant has no source, and its value as `low`.
Piece = tuple["Source | None", int, int]
# Concatenated pieces, the first lowest; adjacent bits of one source are one piece.
Bits = tuple[Piece, ...]


class Source:
    """Something with a value of `width` bits in each cycle: an input, a register, a cell."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.bits: Bits = ((self, 0, width),) if width else ()


def constant(value: int, width: int) -> Bits:
    """A constant as bits."""
    return ((None, value & (1 << width) - 1, width),) if width else ()


def joined(parts: Iterable[Bits]) -> Bits:
    """Bits concatenated, the first lowest."""
    found: list[Piece] = []
    for part in parts:
        for source, low, width in part:
            if found:
                before, start, size = found[-1]
                if before is source and (source is None or start + size == low):
                    found[-1] = (
                        (None, start | low << size, size + width) if source is None else (source, start, size + width)
                    )
                    continue
            found.append((source, low, width))
    return tuple(found)


def sliced(bits: Bits, low: int, width: int) -> Bits:
    """`width` bits from `low` on."""
    if len(bits) == 1:
        source, start, size = bits[0]
        if low == 0 and width == size:
            return bits
        if source is not None:
            return ((source, start + low, width),) if width else ()
    found: list[Piece] = []
    end = low + width
    position = 0
    for source, start, size in bits:
        first, last = max(low, position), min(end, position + size)
        if first < last:
            if source is None:
                found.append((None, start >> first - position & (1 << last - first) - 1, last - first))
            else:
                found.append((source, start + first - position, last - first))
        position += size
    return tuple(found)


def width_of(bits: Bits) -> int:
    """The width of bits."""
    return sum(width for _, _, width in bits)


def number_of(bits: Bits) -> int | None:
    """The value of constant bits, None for others."""
    if not bits:
        return 0
    return bits[0][1] if len(bits) == 1 and bits[0][0] is None else None


def without_leading_zeros(bits: Bits) -> Bits:
    """The bits without constant zeros at the top."""
    if bits and bits[-1][0] is None:
        value = bits[-1][1]
        return joined([bits[:-1], constant(value, value.bit_length())])
    return bits


def sign_extended(bits: Bits) -> Bits | None:
    """The bits that `bits` sign-extends, with the sign as their top bit; None when it is no sign extension."""
    if len(bits) < 2:
        return None
    top = bits[-1]
    if top[0] is None or top[2] != 1:
        return None
    end = len(bits) - 1
    while end and bits[end - 1] == top:
        end -= 1
    if end:
        source, low, width = bits[end - 1]
        if source is top[0] and low + width - 1 == top[1]:
            return bits[:end]
    return bits[: end + 1] if end < len(bits) - 1 else None
