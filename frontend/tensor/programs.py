"""Whole programs: the computations and inputs that outputs depend on, and their text form."""

from collections.abc import Iterable, Sequence

from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.nodes import Computation, Tensor
from lathe.frontend.expr.text import format_computation, format_placeholder
from lathe.frontend.tensor.bounds_checks import check_reads
from lathe.frontend.tensor.recurrences import check_defined, find_recurrences, strongly_connected


def as_outputs(outputs: Tensor | Computation | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """``outputs`` as a tuple of tensors, given as one tensor, a computation (all its outputs) or a sequence of tensors.

    Raises TensorError for no outputs, or anything but a tensor.
    """
    if isinstance(outputs, Computation):
        return outputs.outputs
    given = (outputs,) if isinstance(outputs, Tensor) else outputs
    if not isinstance(given, Sequence) or not given:
        raise TensorError(f"outputs of a program must be one tensor or several, not {shown(outputs)}.")
    for each in given:
        if not isinstance(each, Tensor):
            raise TensorError(f"outputs of a program must be tensors, not {shown(each)}.")
    return tuple(given)


def topological(outputs: Tensor | Sequence[Tensor]) -> tuple[Computation, ...]:
    """The computations that ``outputs`` depend on, producers before consumers, each once, in a deterministic order.

    The computations of a recurrence are consecutive, in their execution order at each point. Raises TensorError for two
    different tensors of the same name, or a state without a definition.
    """
    order: dict[Computation, None] = {}
    tensors: dict[str, Tensor] = {}
    started: set[Computation] = set()
    has_recurrence = False
    stack: list[tuple[Tensor, bool]] = [(tensor, False) for tensor in reversed(as_outputs(outputs))]
    while stack:
        tensor, done = stack.pop()
        computation = tensor.computation
        if done:
            assert computation is not None
            order[computation] = None
            continue
        for each in computation.outputs if computation else (tensor,):
            known = tensors.setdefault(each.name, each)
            if known is not each:
                raise TensorError(
                    f"names of the tensors of a program must be different, not {each.name!r} twice: "
                    f"{known!r} and {each!r}. Pass name= to one of them."
                )
        if computation is None:
            check_defined(tensor)
        elif computation not in started:
            started.add(computation)
            stack.append((tensor, True))
            stack.extend((read.tensor, False) for read in reversed(computation.reads))
        else:
            has_recurrence = has_recurrence or computation not in order
    _check_reads_of_states(order)
    if not has_recurrence:
        return tuple(order)
    ordered = {each: one.computations for one in find_recurrences(order) for each in one.computations}
    groups = strongly_connected(order)
    return tuple(each for group in groups for each in ordered.get(group[0], tuple(group)))


def _check_reads_of_states(order: Iterable[Computation]) -> None:
    """Raise DomainError for reads outside the domain of a state, which was unknown when its readers were created."""
    for computation in order:
        states = [read.tensor.computation for read in computation.reads if read.tensor.is_state]
        if any(producer is not None and producer.where is not None for producer in states):
            check_reads(computation)


def placeholders(outputs: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs of the program, each once, in the order in which computations read them first.

    An output that is itself a placeholder counts as an input. Raises TensorError as ``topological`` does.
    """
    read = (access.tensor for computation in topological(outputs) for access in computation.reads)
    return tuple(dict.fromkeys(t for t in (*read, *as_outputs(outputs)) if t.computation is None))


def format_program(outputs: Tensor | Sequence[Tensor]) -> str:
    """The text form of the program that computes ``outputs``: its inputs, then its computations, producers first."""
    parts = [format_placeholder(tensor) for tensor in placeholders(outputs)]
    blocks = ["\n".join(parts)] if parts else []
    blocks += [format_computation(computation) for computation in topological(outputs)]
    return "\n\n".join(blocks) + "\n"
