"""States: tensors that can be read before they are defined, to express recurrences (cyclic data flow).

A state is declared, read by the computations that need its earlier elements, and defined at the end. (Tiramisu, too,
declares a recurrent computation first and gives it an expression later.) ``recurrence`` is the short form for
computations that depend on themselves only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

from lathe.configs.integers import integer
from lathe.frontend.arith.intervals import interval
from lathe.frontend.expr.arithmetic import const, expression, select
from lathe.frontend.expr.dtypes import checked_dtype
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.expr_base import Expr, Value
from lathe.frontend.expr.names import checked_name
from lathe.frontend.expr.nodes import Computation, Read, Tensor
from lathe.frontend.tensor.compute import check_takes, checked_shape, compute
from lathe.frontend.tensor.recurrences import check_causality, check_readers

Init: TypeAlias = Tensor | int | Callable[..., Value] | None
"""The values of a state at negative indices."""


@dataclass(frozen=True, eq=False, repr=False)
class State(Tensor):
    """A tensor that can be read before it is defined.

    ``init`` gives the values at negative indices: a tensor over the other dimensions (for a negative index in the
    first), a constant, or a function of the indices. Without it, reads must be in bounds, as for any tensor.
    """

    init: Init = None
    is_state: ClassVar[bool] = True

    __hash__ = object.__hash__

    def __getitem__(self, indices: Value | tuple[Value, ...]) -> Expr:  # type: ignore[override]
        """The element at ``indices``, or the value of ``init`` where one of them is negative."""
        read: Read = super().__getitem__(indices)
        negative = [d for d, index in enumerate(read.indices) if interval(index)[0] < 0]
        if self.init is None or not negative:
            return read
        if any(interval(index)[1] < 0 for index in read.indices):
            return expression(self._before(read, negative), f"init of state {self.name!r}")
        inside = read.indices[negative[0]] >= 0
        for d in negative[1:]:
            inside = inside & (read.indices[d] >= 0)
        return select(inside, read, self._before(read, negative))

    def _before(self, read: Read, negative: list[int]) -> Value:
        init = self.init
        if isinstance(init, Tensor):
            if negative != [0]:
                raise TensorError(
                    f"index of state {self.name!r} may be negative in dimension 0 only, as its init is tensor "
                    f"{init.name!r}, not in dimension {negative[-1]}: {read}. Give init as a function of the indices."
                )
            return init[read.indices[1:]]
        if callable(init):
            return init(*read.indices)
        assert isinstance(init, int), f"init of {self.name} is {init!r}"
        return const(init, self.dtype)


def state(shape: int | Sequence[int], dtype: str = "int32", name: str = "state", *, init: Init = None) -> State:
    """Declare a tensor that can be read immediately and is defined later, by ``define``.

    Each computation of the recurrence is a stage of its own in a schedule, so that the matmul and the element-wise part
    of a recurrent network can run on different units. For example ::

        h = lt.state((T, N), "int8", name="h", init=0)
        gates = lt.compute((T, N), lambda t, n: lt.sum(W[n, k].astype("int32") * h[t - 1, k].astype("int32"), axis=k))
        lt.define(h, lambda t, n: lt.min(lt.max(gates[t, n] >> 8, -128), 127).astype("int8"))

    ``init`` gives the values at negative indices: a constant, a tensor of shape ``shape[1:]`` (for a negative index in
    the first dimension), or a function of all indices. Without it, reads must be in bounds, guarded by ``select`` where
    necessary. Raises TensorError for a wrong shape, dtype, name or init.
    """
    checked_name(name, "a state")
    where = f"state {name!r}"
    extents, kind = checked_shape(shape, where), checked_dtype(dtype, where)
    if isinstance(init, Tensor) and (init.shape != extents[1:] or init.dtype != kind):
        raise TensorError(
            f"init of {where} must be a tensor of shape {extents[1:]} and dtype {kind} (its values at negative indices "
            f"of dimension 0), not {init!r}. Give a function of the indices for other initial values."
        )
    number = integer(init)
    if init is not None and not isinstance(init, Tensor) and number is None and not callable(init):
        raise TensorError(
            f"init of {where} must be an integer, a tensor, a function of the indices or None, not {shown(init)}."
        )
    if callable(init):
        check_takes(init, len(extents), f"init of {where}")
    return State(name, extents, kind, init=init if number is None else number)


def define(
    states: State | Sequence[State],
    fcompute: Callable[..., Value | tuple[Value, ...]],
    *,
    where: Callable[..., Value] | None = None,
    attrs: Mapping[str, object] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Define a state by an expression, as in ``compute``, or several states over the same points by a tuple.

    ``where`` restricts the domain, as in ``compute``.

    Causality is checked once every state of the recurrence is defined: axes are loops in the order in which they are
    declared, and an element may read what is computed at an earlier point of the outermost loops, or before it at the
    same point. Returns ``states``. Raises CausalityError, with a point that reads an element not yet computed;
    TensorError for anything but an undefined state, or an expression of another dtype; and the errors of ``compute``.
    """
    given = tuple(states) if isinstance(states, Sequence) else (states,)
    for each in given:
        if not isinstance(each, State):
            raise TensorError(f"state of define must be what state() returned, not {shown(each)}.")
        if each.computation is not None:
            raise TensorError(f"Cannot define state {each.name!r}: it is already defined. Declare another state.")
    if not given or len({each.shape for each in given}) > 1 or len(set(given)) < len(given):
        raise TensorError(
            "states of define must be at least one, all different and of one shape, not "
            f"{', '.join(map(repr, given)) or 'none'}."
        )
    body = cast("Callable[..., Value]", fcompute)  # or a tuple, which compute accepts, too
    outputs: Tensor | tuple[Tensor, ...] = compute(
        given[0].shape, body, ".".join(each.name for each in given), where=where, attrs=attrs
    )
    bodies = outputs if isinstance(outputs, tuple) else (outputs,)
    name = ", ".join(each.name for each in given)
    if len(bodies) != len(given):
        raise TensorError(f"expressions of define must be {len(given)}, one per state ({name}), not {len(bodies)}.")
    for each, one in zip(given, bodies, strict=True):
        if each.dtype != one.dtype:
            raise TensorError(
                f"expression of state {each.name!r} must have the dtype that the state was declared with, "
                f"{each.dtype}, not {one.dtype}. Convert it, as in x.astype({each.dtype!r})."
            )
    computation = bodies[0].computation
    assert computation is not None, f"compute returned {bodies[0]} without a computation"
    bind_states(given, computation)
    try:
        check_readers(computation)
        check_causality(computation)
    except BaseException:
        _release(given)
        raise
    return states if isinstance(states, Tensor) else given


def bind_states(states: Sequence[State], computation: Computation) -> None:
    """Make the states the outputs of a computation, the only mutation of a tensor."""
    computation.__dict__["outputs"] = tuple(states)  # where cached_property stores them
    for position, each in enumerate(states):
        object.__setattr__(each, "computation", computation)
        object.__setattr__(each, "output_index", position)


def _release(states: Sequence[State]) -> None:
    for each in states:
        object.__setattr__(each, "computation", None)


def recurrence(
    shape: int | Sequence[int],
    fcompute: Callable[..., Value | tuple[Value, ...]],
    *,
    init: Init | Sequence[Init] = None,
    name: str | Sequence[str] = "recurrence",
    dtype: str | Sequence[str] = "int32",
    where: Callable[..., Value] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """A tensor whose elements are computed from elements of itself at earlier points.

    ``fcompute`` is called with the state and one index per dimension. A cumulative sum ::

        total = lt.recurrence((64,), lambda state, t: state[t - 1] + x[t], init=0, name="total")

    With several names, there are as many states (each may read all) and ``fcompute`` returns a tuple; ``init`` and
    ``dtype`` are then given for each, or one for all. For a recurrence of several computations use ``state`` and
    ``define``. ``where`` restricts the domain, as in ``compute``. Raises the errors of ``state`` and ``define``.
    """
    names = list(name) if isinstance(name, Sequence) and not isinstance(name, str) else [name]
    inits, dtypes = _for_each(init, len(names)), _for_each(dtype, len(names))
    states = [
        state(shape, one_dtype, one, init=first) for one, one_dtype, first in zip(names, dtypes, inits, strict=True)
    ]
    if not callable(fcompute):
        raise TensorError(
            f"expression of recurrence {', '.join(names)} must be given as a function of its states and axes, not "
            f"{shown(fcompute)}."
        )
    return define(
        states[0] if len(states) == 1 and names[0] is name else states, partial(fcompute, *states), where=where
    )


def _for_each(value: Any, count: int) -> list[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != count:
            raise TensorError(
                f"init and dtype of recurrence must be given for each of {count} states, or once for all, not "
                f"{shown(value)}."
            )
        return list(value)
    return [value] * count
