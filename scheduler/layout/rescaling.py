"""What of a rescaling is read from scratchpads of its own, and how it lies there: parameters and tables."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD, TABLE_ELEMENTS
from lathe.frontend import Computation
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Read, ReadAccess, Select, axes_of, reads_data
from lathe.scheduler.layout.vector_type import VectorType, whole_elements
from lathe.scheduler.rewriting.match_rescale import Rescaling, rescaling_in, table_index, why_no_rescaling
from lathe.scheduler.rewriting.matchers import dimension_of
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.memories import PARAMETERS, TABLES
from lathe.scheduler.schedule_ir.stage import VectorLayout

_WHAT_FOR = {
    RESCALE: "for sums with a factor for each channel",
    RESCALE_ADD: "for two such sums added",
    LOOKUP: "for values of a table at places that depend on data",
}

FORM = "clamp(rounding_shift(int64(data + bias) * int64(word >> 6), int64(word % 64)) + zero_point)"
"""What a rescaling is, for messages; a second product may be added."""


@lru_cache(maxsize=4096)
def rescaling_of(computation: Computation) -> Rescaling | None:
    """The rescaling that a computation is, if it is one; of several that places choose among, the first.

    These are alike but for their parameters.
    """
    found = rescalings_of(computation)
    return found[0] if found else None


@lru_cache(maxsize=4096)
def rescalings_of(computation: Computation) -> tuple[Rescaling, ...]:
    """The rescaling that a computation is, or those that places choose among, alike but for their parameters."""
    if computation.reduce_axes or len(computation.bodies) != 1:
        return ()
    found: list[Rescaling] = []
    for branch in _branches(defined(computation).bodies[0]):
        rescaling = rescaling_in(branch)
        if rescaling is None or (found and _without_parameters(rescaling) != _without_parameters(found[0])):
            return ()
        found.append(rescaling)
    return tuple(found)


def _branches(value: Expr) -> Iterator[Expr]:
    """What conditions choose among."""
    if isinstance(value, Select):
        yield from _branches(value.then)
        yield from _branches(value.otherwise)
    else:
        yield value


def _without_parameters(rescaling: Rescaling) -> tuple[object, ...]:
    data = tuple((term.data.tensor, str(term.data)) for term in rescaling.terms)
    return data, rescaling.zero_point, rescaling.dtype, rescaling.relu, rescaling.table


def missing_extensions(rescaling: Rescaling, config: HardwareConfig) -> tuple[str, ...]:
    """The extensions that a machine would need besides its own."""
    wanted = [RESCALE]
    wanted += [RESCALE_ADD] if len(rescaling.terms) > 1 else []
    wanted += [LOOKUP] if rescaling.table is not None else []
    return tuple(each for each in wanted if each not in config.extensions)


def unmet(value: Expr, config: HardwareConfig) -> Mapping[str, str]:
    """The extensions that a machine has not for a rescaling or look-up, and what each is for."""
    found = rescaling_in(value)
    if found is not None:
        return {each: _WHAT_FOR[each] for each in missing_extensions(found, config)}
    if isinstance(value, Read) and table_index(value) is not None and LOOKUP not in config.extensions:
        needed = {} if RESCALE in config.extensions else {RESCALE: "for the pass that looks values up"}
        return {**needed, LOOKUP: _WHAT_FOR[LOOKUP]}
    return {}


def told(missing: Mapping[str, str]) -> str:
    """Extensions and what each is for, as part of a sentence."""
    named = ", and ".join(f"{extension!r}, {purpose}" for extension, purpose in missing.items())
    return f"extension{'s' * (len(missing) > 1)} {named}"


def rescaling_wanted(value: Expr, config: HardwareConfig) -> str:
    """What is told of a value that computes with int64: the form that RESCALE takes, and why it does not take this."""
    without = "" if RESCALE in config.extensions else f" (extension {RESCALE!r}, which {config.name!r} is without)"
    why = why_no_rescaling(value) or "the rule must be 'rescale'"
    return f"of int64, RESCALE{without} takes {FORM}, where {why}"


def look_ups_taken(read: Read, index: Expr, config: HardwareConfig) -> str:
    """What is told, as a sentence, where a tensor is read at a place that depends on data: which look-ups are taken."""
    if not reads_data(index):
        return ""
    if LOOKUP in config.extensions:
        return (
            f" Look-ups are taken by rule 'rescale' where table[uint8(value), ..] is all that a stage computes, of "
            f"{TABLE_ELEMENTS} rows and values of 8 bits."
        )
    if table_index(read) is None:
        return ""
    return f" Tables are looked up with the extension {LOOKUP!r}, which machine {config.name!r} is without."


@lru_cache(maxsize=4096)
def own_operands(computation: Computation, config: HardwareConfig) -> Mapping[Read, str]:
    """The reads of a rescaling of parameters and tables, and the scratchpads from which the machine takes them."""
    found = rescaling_of(computation)
    if found is None or missing_extensions(found, config):
        return {}
    tables = {} if found.table is None else {found.table: TABLES}
    parameters = (read for each in rescalings_of(computation) for read in each.parameters)
    return {**dict.fromkeys(parameters, PARAMETERS), **tables}


def lanes_of_own_operand(
    computation: Computation, access: ReadAccess, scope: str, lanes: VectorLayout, config: HardwareConfig
) -> VectorLayout:
    """The lanes of a parameter or table, from those of the result: one value for all where it has no such dimension.

    A parameter's element has a lane in each row, and its two words in the columns.
    """
    axis = None if lanes.cols is None else computation.axes[lanes.cols]
    along = dimension_of(access.node, axis, whole_elements(config))
    return VectorLayout(along, len(access.indices) - 1) if scope == PARAMETERS else VectorLayout(None, along)


def is_in_the_way(
    computation: Computation, access: ReadAccess, lanes: VectorLayout, element: VectorType, config: HardwareConfig
) -> bool:
    """Whether a result cannot have these lanes because of a parameter or table: it has one value for all rows of an
    element, and one for all columns or one for each.
    """
    axes = axes_of(*(index for index in access.indices if not reads_data(index)))
    rows = element.rows > 1 and lanes.rows is not None and computation.axes[lanes.rows] in axes
    cols = lanes.cols is not None and computation.axes[lanes.cols] in axes
    along = dimension_of(access.node, computation.axes[lanes.cols or 0], whole_elements(config)) if cols else None
    return rows or (cols and along is None)
