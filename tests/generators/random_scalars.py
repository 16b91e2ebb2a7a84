"""Random programs with tensors without dimensions: inputs, reductions and maps of them, read by others, and outputs."""

from typing import Any

from random_commands import Command
from random_programs import Builder, Choice, wide

from lathe.frontend import DomainError, Expr, Tensor, TensorError, compute, max, min, reduce_axis, select, sum
from lathe.scheduler import Schedule

DTYPES = ["int8", "uint8", "int16", "int32"]


def element(b: Builder, A: Tensor) -> Any:
    """An element of a tensor at constant indices."""
    return A[tuple(b.number(0, size - 1) for size in A.shape)]


def reduced(b: Builder, A: Tensor) -> Tensor | None:
    """A reduction over all dimensions, perhaps over a part of each, or of one element."""
    if not A.ndim:
        return None
    starts = [b.number(0, size - 1) if b.number(0, 3) == 0 else 0 for size in A.shape]
    ks = [reduce_axis((first, size), f"k{d}") for d, (first, size) in enumerate(zip(starts, A.shape, strict=True))]
    widened, kind = b.pick([A[tuple(ks)], wide(A[tuple(ks)]), wide(A[tuple(ks)]) * 3]), b.pick([sum, max, min])
    return compute((), lambda: kind(widened, axis=ks), b.name(), where=b.pick([None, None, domain(b)]))


def kept(b: Builder, A: Tensor) -> Tensor | None:
    """A reduction over all dimensions but one."""
    if A.ndim < 2:
        return None
    dim = b.number(0, A.ndim - 1)
    ks = [reduce_axis(size, f"k{d}") for d, size in enumerate(A.shape) if d != dim]
    kind = b.pick([sum, max])
    return compute((A.shape[dim],), lambda i: kind(wide(A[(*ks[:dim], i, *ks[dim:])]), axis=ks), b.name())


def dot(b: Builder, A: Tensor) -> Tensor | None:
    """The dot product of a tensor and a new input."""
    if not A.ndim:
        return None
    B = b.input(A.shape, b.pick(["int8", "int8", "int32"]))
    b.tensors.append(B)
    ks = [reduce_axis(size, f"k{d}") for d, size in enumerate(A.shape)]
    return compute((), lambda: sum(wide(A[tuple(ks)]) * wide(B[tuple(ks)]), axis=ks), b.name())


def domain(b: Builder) -> Any:
    """A condition without indices, on an element of an input."""
    given = b.pick([T for T in b.tensors if T.computation is None])
    at, bound = element(b, given), b.number(-100, 40)
    return lambda *_: wide(at) > bound


def mapped(b: Builder, A: Tensor) -> Tensor | tuple[Tensor, ...]:
    """One element from elements of one or two tensors."""
    one, other = element(b, A), element(b, b.pick(b.tensors))
    constant, dtype = b.number(-5, 40000), b.pick(DTYPES)
    return b.pick(
        [
            lambda: compute((), lambda: wide(one) + wide(other), b.name()),
            lambda: compute((), lambda: (wide(one) >> 3).astype(dtype), b.name()),
            lambda: compute((), lambda: max(min(wide(one), 127), -128).astype("int8"), b.name()),
            lambda: compute((), lambda: select(wide(one) > 3, wide(other), constant), b.name()),
            lambda: compute((), lambda: wide(one) - constant, b.name(), where=domain(b)),
            lambda: compute((), lambda: (wide(one) + 1, wide(other) * 3), b.name()),
            lambda: compute((), lambda: one, b.name()),
            lambda: compute((), lambda: constant, b.name()),
        ]
    )()


def spread(b: Builder, A: Tensor) -> Tensor:
    """A tensor combined with an element of another one."""
    other, constant = element(b, b.pick(b.scalars() or b.tensors)), b.number(-5, 400)

    def combined(value: Any) -> Expr:
        return b.pick(
            [
                lambda: wide(value) + wide(other),
                lambda: wide(value) * wide(other),
                lambda: max(wide(value), wide(other)) - 1,
                lambda: select(wide(other) > constant, wide(value), wide(value) + 1),
                lambda: select(wide(value) > wide(other), 1, constant),
            ]
        )()

    return compute(A.shape, lambda *i: combined(A[i]), b.name())


def broadcast(b: Builder, A: Tensor) -> Tensor:
    """Copies of one element."""
    one = element(b, A)
    return compute(b.shape(), lambda *_: wide(one), b.name())


STEPS = [reduced, reduced, reduced, dot, dot, mapped, mapped, mapped, spread, spread, spread, broadcast, kept]


class ScalarBuilder(Builder):
    """Adds computations most of which compute or read tensors without dimensions."""

    def shape(self) -> tuple[int, ...]:
        return tuple(self.number(1, 19) for _ in range(self.pick([1, 1, 2, 2, 3])))

    def scalars(self) -> list[Tensor]:
        return [T for T in self.tensors if not T.ndim]

    def step(self) -> None:
        try:
            made = self.pick(STEPS)(self, self.pick(self.tensors))
        except (DomainError, TensorError):  # an element that may be outside the domain of its tensor
            return
        self.tensors.extend(made if isinstance(made, tuple) else (made,) if made is not None else ())


def scalar_programs(choice: Choice, computations: int) -> list[Tensor]:
    """The outputs of a program."""
    b = ScalarBuilder(choice, [])
    for shape in (b.shape(), b.pick([(), b.shape()]), ()):
        b.tensors.append(b.input(shape, b.pick(DTYPES)))
    while len(b.made()) < computations:
        b.step()
    made = b.made()
    return list(dict.fromkeys([made[-1], *(choice.pick(made) for _ in range(choice.number(0, 2)))]))


def scalar_commands(choice: Choice, schedule: Schedule) -> Command:
    """A primitive on a random stage, which may have no loops; it may be refused."""
    number = choice.number(0, len(schedule.stages) - 1)
    stage = schedule.stages[number]
    loops, read = stage.leaf_axis, [access.tensor for access in stage.op.reads]
    readers = [n for n, each in enumerate(schedule.stages) if any(r.tensor is stage.tensor for r in each.op.reads)]
    scope, factor = choice.pick(["acc", "acc", "inp", "dram"]), choice.number(1, 5)
    other = choice.pick(readers) if readers else number
    there = schedule.stages[other].leaf_axis
    loop, place, tensor = (choice.pick(each) if each else None for each in (loops, there, read))
    runs: dict[str, Any] = {
        "set_scope": lambda s: s.stages[number].set_scope(scope),
        "cache_write": lambda s: s.cache_write(stage.tensor, scope),
        "inline": lambda s: s.stages[number].inline(),
        "store_in": lambda s: s.stages[number].store_in(lambda *i: [i[0] if i else 0]),
        "double_buffer": lambda s: s.stages[number].double_buffer(2),
        "then": lambda s: s.stages[number].then(s.stages[other]),
    }
    if tensor is not None:
        runs["cache_read"] = lambda s: s.cache_read(tensor, scope, [s.stages[number]])
    if loop is not None:
        runs["unroll"] = lambda s: s.stages[number].unroll(loop)
        runs["split"] = lambda s: s.stages[number].split(loop, factor=factor)
        runs["reuse_at"] = lambda s: s.reuse_at(read[0], s.stages[number], loop)
    if place is not None:
        runs["compute_at"] = lambda s: s.stages[number].compute_at(s.stages[other], place)
    kind = choice.pick(list(runs))
    return Command(f"{kind} of {stage.name}: {scope}, {loop}, {tensor}, {schedule.stages[other].name}", runs[kind])
