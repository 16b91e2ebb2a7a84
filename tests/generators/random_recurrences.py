"""Random programs with recurrences."""

from typing import Any

from random_programs import Choice

from lathe.frontend import Expr, State, Tensor, compute, define, max, min, placeholder, reduce_axis, select, state, sum


def distance(choice: Choice, rank: int) -> tuple[int, ...]:
    """The distance to an earlier cell: lexicographically positive."""
    level = choice.number(0, rank - 1)
    return (
        *[0] * level,
        choice.number(1, 3),
        *(choice.number(-2, 2) if choice.number(0, 1) else 0 for _ in range(level + 1, rank)),
    )


def behind(tensor: Tensor, point: tuple[Any, ...], apart: tuple[int, ...], otherwise: int) -> Expr:
    """The cell at that distance, or ``otherwise`` outside the tensor."""
    index = [axis - d for axis, d in zip(point, apart, strict=True)]
    inside = None
    for each, d, extent in zip(index, apart, tensor.shape, strict=True):
        conditions = [each >= 0] if d > 0 else [each < extent] if d < 0 else []
        for condition in conditions:
            inside = condition if inside is None else inside & condition
    value = tensor[tuple(index)]
    return value if inside is None else select(inside, value, otherwise)


def mixed(choice: Choice, values: list[Expr]) -> Expr:
    """The values combined one by one by random operations, such that exchanged values change the result."""
    total = values[0]
    for value in values[1:]:
        kind = choice.number(0, 3)
        total = [total + value * 3, total - value, max(total, value) + 1, min(total * 2, value)][kind]
    return total


def recurrences(choice: Choice) -> list[Tensor]:
    """The outputs of a program with a recurrence: one or two states, computations between them, and their consumers."""
    rank = choice.number(1, 3)
    shape = tuple(choice.number(2, 6) for _ in range(rank))
    x = placeholder(shape, "int32", "x")
    states = [state(shape, "int32", "s", init=choice.number(-3, 3))]
    if choice.number(0, 2) == 0:
        states.append(state(shape, "int32", "r", init=1))
    between: list[Tensor] = []
    for number in range(choice.number(0, 2)):
        between.append(_between(choice, f"b{number}", states, between))
    for position, each in enumerate(states):
        _define(choice, each, states[: position + 1], states, between, x)
    outputs: list[Tensor] = [choice.pick([*states, *between])]
    if choice.number(0, 1):
        source = choice.pick([*states, *between])
        last = compute(
            source.shape, lambda *i: source[tuple(e - 1 - a for a, e in zip(i, source.shape, strict=True))] + 1, "last"
        )
        outputs.append(last)
    if states[0] not in outputs:
        outputs.append(states[0])
    return outputs


def _between(choice: Choice, name: str, states: list[State], before: list[Tensor]) -> Tensor:
    """A computation of the recurrence between states: it reads earlier cells, perhaps all of a row."""
    source = choice.pick(states)
    rank = len(source.shape)
    if rank > 1 and choice.number(0, 2) == 0:
        size = source.shape[-1]
        weights = placeholder((size, size), "int32", f"w{name}")
        k = reduce_axis(size, "k")
        step = choice.number(1, 2)
        return compute(
            source.shape,
            lambda *i: sum(weights[i[-1], k] * source[(i[0] - step, *i[1:-1], k)], axis=k),
            name,
        )
    reads = [(choice.pick(states), distance(choice, rank), choice.number(-2, 2)) for _ in range(choice.number(1, 2))]
    same = [each for each in before if choice.number(0, 1)]

    def body(*i: Any) -> Expr:
        return mixed(
            choice, [*(behind(each, i, apart, other) for each, apart, other in reads), *(each[i] for each in same)]
        )

    return compute(source.shape, body, name)


def _define(
    choice: Choice, own: State, earlier: list[State], states: list[State], between: list[Tensor], x: Tensor
) -> None:
    rank = len(own.shape)
    reads = [(choice.pick(states), distance(choice, rank), choice.number(-2, 2)) for _ in range(choice.number(1, 2))]

    def body(*i: Any) -> Expr:
        values = [x[i], *(behind(each, i, apart, other) for each, apart, other in reads)]
        values += [each[i] for each in between]
        values += [each[i] for each in earlier if each is not own]
        return mixed(choice, values)

    define(own, body)
