"""Rescaling stages (requantisation): their match, the extensions they need, and the layout of parameters and tables."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD, TABLE_ELEMENTS
from lathe.frontend import Computation
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Read, ReadAccess, Select, axes_of, reads_data
from lathe.scheduler.layout.vector_type import VectorType, largest_block
from lathe.scheduler.rewriting.match_rescale import Rescaling, explain_no_rescale, match_rescale, table_index
from lathe.scheduler.rewriting.matchers import dim_indexed_by
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.memories import PARAMETERS, TABLES
from lathe.scheduler.schedule_ir.stage import VectorLayout

_PURPOSES = {
    RESCALE: "per-channel rescaling",
    RESCALE_ADD: "the sum of two rescaled operands",
    LOOKUP: "look-ups at data-dependent indices",
}

FORM = "clamp(rounding_shift(int64(data + bias) * int64(word >> 6), int64(word % 64)) + zero_point)"
"""The form of a rescaling, for messages; a second scaled operand may be added."""


@lru_cache(maxsize=4096)
def rescaling_of(computation: Computation) -> Rescaling | None:
    """Match a computation as a rescaling, or None; of several that index conditions select among, the first."""
    rescalings = rescalings_of(computation)
    return rescalings[0] if rescalings else None


@lru_cache(maxsize=4096)
def rescalings_of(computation: Computation) -> tuple[Rescaling, ...]:
    """The rescalings that a computation selects among, equal but for their parameters; () if it is none."""
    if computation.reduce_axes or len(computation.bodies) != 1:
        return ()
    matched: list[Rescaling] = []
    for branch in _branches(defined(computation).bodies[0]):
        rescaling = match_rescale(branch)
        if rescaling is None or (matched and _without_parameters(rescaling) != _without_parameters(matched[0])):
            return ()
        matched.append(rescaling)
    return tuple(matched)


def _branches(value: Expr) -> Iterator[Expr]:
    """The values that selects choose among."""
    if isinstance(value, Select):
        yield from _branches(value.then)
        yield from _branches(value.otherwise)
    else:
        yield value


def _without_parameters(rescaling: Rescaling) -> tuple[object, ...]:
    data = tuple((term.data.tensor, str(term.data)) for term in rescaling.terms)
    return data, rescaling.zero_point, rescaling.dtype, rescaling.relu, rescaling.table


def missing_extensions(rescaling: Rescaling, config: HardwareConfig) -> tuple[str, ...]:
    """The extensions that a rescaling needs and a machine lacks."""
    required = [RESCALE]
    required += [RESCALE_ADD] if len(rescaling.terms) > 1 else []
    required += [LOOKUP] if rescaling.table is not None else []
    return tuple(each for each in required if each not in config.extensions)


def missing_extensions_of(value: Expr, config: HardwareConfig) -> Mapping[str, str]:
    """The extensions that a machine lacks for a rescaling or look-up, each with its purpose."""
    found = match_rescale(value)
    if found is not None:
        return {each: _PURPOSES[each] for each in missing_extensions(found, config)}
    if isinstance(value, Read) and table_index(value) is not None and LOOKUP not in config.extensions:
        needed = {} if RESCALE in config.extensions else {RESCALE: "the pass that performs look-ups"}
        return {**needed, LOOKUP: _PURPOSES[LOOKUP]}
    return {}


def listed_extensions(missing: Mapping[str, str]) -> str:
    """Extensions with their purposes, for messages: ``extensions 'a' (purpose) and 'b' (purpose)``."""
    named = " and ".join(f"{extension!r} ({purpose})" for extension, purpose in missing.items())
    return f"extension{'s' * (len(missing) > 1)} {named}"


def why_not_rescale(value: Expr, config: HardwareConfig) -> str:
    """Why RESCALE does not take an int64 expression, for messages: the form that it takes, and the difference."""
    without = "" if RESCALE in config.extensions else f" (extension {RESCALE!r}, which {config.name!r} lacks)"
    why = explain_no_rescale(value) or "the rule must be 'rescale'"
    return f"RESCALE{without} takes int64 only as {FORM}: {why}"


def lookup_hint(read: Read, index: Expr, config: HardwareConfig) -> str:
    """A hint, for messages about a data-dependent index, on the look-ups that the machine supports; "" without any."""
    if not reads_data(index):
        return ""
    if LOOKUP in config.extensions:
        return (
            f" Rule 'rescale' takes a look-up only if table[uint8(value), ..] is all that the stage computes, with "
            f"{TABLE_ELEMENTS} rows of 8-bit values."
        )
    if table_index(read) is None:
        return ""
    return f" Look-ups need extension {LOOKUP!r}, which machine {config.name!r} lacks."


@lru_cache(maxsize=4096)
def own_operands(computation: Computation, config: HardwareConfig) -> Mapping[Read, str]:
    """The parameter and table reads of a rescaling, each with the scratchpad that it must be in; {} if it is none."""
    found = rescaling_of(computation)
    if found is None or missing_extensions(found, config):
        return {}
    tables = {} if found.table is None else {found.table: TABLES}
    parameters = (read for each in rescalings_of(computation) for read in each.parameters)
    return {**dict.fromkeys(parameters, PARAMETERS), **tables}


def lanes_of_own_operand(
    computation: Computation, access: ReadAccess, scope: str, lanes: VectorLayout, config: HardwareConfig
) -> VectorLayout:
    """The layout of a parameter or table, from that of the result; a dimension that it lacks is broadcast.

    A parameter vector has the lanes of the result in its rows, and the two words of each in its columns.
    """
    axis = None if lanes.cols is None else computation.axes[lanes.cols]
    along = dim_indexed_by(access.node, axis, largest_block(config))
    return VectorLayout(along, len(access.indices) - 1) if scope == PARAMETERS else VectorLayout(None, along)


def is_in_the_way(
    computation: Computation, access: ReadAccess, lanes: VectorLayout, element: VectorType, config: HardwareConfig
) -> bool:
    """Whether a parameter or table rules a layout of the result out: it must not vary over the rows of a vector, and
    over columns only if it has a dimension along them.
    """
    axes = axes_of(*(index for index in access.indices if not reads_data(index)))
    rows = element.rows > 1 and lanes.rows is not None and computation.axes[lanes.rows] in axes
    cols = lanes.cols is not None and computation.axes[lanes.cols] in axes
    along = dim_indexed_by(access.node, computation.axes[lanes.cols or 0], largest_block(config)) if cols else None
    return rows or (cols and along is None)
