"""Lowering of data movement: Transpose, Slice, Resize, Pad, Concat and Reshape."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lathe.frontend import compute, select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import Concat, Layer, Pad, Reshape, Resize, Run, Slice, Transpose
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_lowering.context import Context
from lathe.networks.lowered_values import IMAGE_RANKS, Value, computed, padded_channels


def _transpose(layer: Transpose, data: tuple[Value, ...], context: Context) -> Value:
    """A transpose; the result is an image or plain, whichever keeps the order of values, if one does."""
    (source,), order = data, layer.order
    positions = [order.index(n) for n in range(len(order))]
    channels_last = {False: order, True: (*order[:1], *order[2:], *order[1:2])}
    before = (0, *range(2, len(order)), 1) if source.is_image else tuple(range(len(order)))
    may_be_image = len(order) in IMAGE_RANKS
    if context.is_view and not source.is_image and not source.more:
        return source.transposed(order)
    layouts = [
        is_image for is_image in (True, False) if channels_last[is_image] == before and (may_be_image or not is_image)
    ]
    return _moved(
        source,
        context,
        lambda *i: tuple(i[place] for place in positions),
        is_image=layouts[0] if layouts else context.read_as_image,
        keeps_channels=positions[1:2] == [1],
    )


def _slice(layer: Slice, data: tuple[Value, ...], context: Context) -> Value:
    """A slice; if it takes some channels of an image, whole blocks of channels are copied, with their positions."""
    (source,) = data
    starts, steps = layer.starts, layer.steps

    def index(*i: Expr) -> tuple[Expr, ...]:
        moves = zip(i, starts, steps, strict=True)
        return tuple(each * step + start if (start, step) != (0, 1) else each for each, start, step in moves)

    keeps_channels = source.shape[1:2] == context.shape[1:2] and starts[1:2] == (0,)
    if keeps_channels or not source.is_image:
        return _moved(source, context, index, is_image=source.is_image, keeps_channels=keeps_channels)
    held = source.positions or tuple(range(source.shape[1]))
    chosen = [held[starts[1] + steps[1] * n] for n in range(context.shape[1])]
    first = min(chosen) // context.lanes * context.lanes
    end = min(first + padded_channels(max(chosen) + 1 - first, context.lanes), source.width)
    batch, _, height, width = context.image_shape

    def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        at_n, _, *pixel = index(n, c, y, x) if len(context.shape) == 4 else index(n, c, x)
        return source.tensor[(at_n, *([] if len(pixel) == 2 else [0]), *pixel, c + first if first else c)]

    made = compute((batch, height, width, end - first), own, context.name)
    positions = tuple(each - first for each in chosen)
    return context.image(made, None if positions == tuple(range(made.shape[3])) else positions)


def _resize(layer: Resize, data: tuple[Value, ...], context: Context) -> Value:
    return _moved(
        data[0],
        context,
        lambda *i: tuple(each // factor if factor > 1 else each for each, factor in zip(i, layer.factors, strict=True)),
        is_image=data[0].is_image,
        keeps_channels=layer.factors[1:2] == (1,),
    )


def _moved(
    source: Value, context: Context, index: Callable[..., tuple[Expr, ...]], *, is_image: bool, keeps_channels: bool
) -> Value:
    """The elements of a tensor at the indices that ``index`` gives."""
    return _of_reads(source, context, lambda read, i: read(index(*i)), is_image=is_image, keeps_channels=keeps_channels)


_Read: TypeAlias = Callable[[tuple[Expr, ...]], Expr]
"""Reads the element at the indices of a tensor."""


def _of_reads(
    source: Value,
    context: Context,
    element: Callable[[_Read, tuple[Expr, ...]], Expr],
    *,
    is_image: bool,
    keeps_channels: bool,
) -> Value:
    """The tensor of ``element``, a function of reads of ``source``; channels that do not move keep their positions."""
    if source.is_image and is_image and keeps_channels and len(source.shape) == len(context.shape):
        batch, _, height, width = context.image_shape
        rows = len(context.shape) == 4

        def read(index: tuple[Expr, ...]) -> Expr:
            at_n, at_c, *rest = index
            return source.tensor[(at_n, *([] if rows else [0]), *rest, at_c)]

        def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
            return element(read, (n, c, y, x) if rows else (n, c, x))

        return context.image(compute((batch, height, width, source.width), own, context.name), source.positions)
    return computed(context.shape, lambda *i: element(source.at, i), context.name, context.lanes, is_image=is_image)


def _pad(layer: Pad, data: tuple[Value, ...], context: Context) -> Value:
    (source,) = data

    def filled(read: _Read, i: tuple[Expr, ...]) -> Expr:
        inside: Expr | None = None
        for each, first, size, whole in zip(i, layer.before, source.shape, context.shape, strict=True):
            lower, upper = [each >= first] if first > 0 else [], [each < first + size] if first + size < whole else []
            for there in lower + upper:
                inside = there if inside is None else inside & there
        moved = read(tuple(each - first if first else each for each, first in zip(i, layer.before, strict=True)))
        return moved if inside is None or layer.filling is None else select(inside, moved, layer.filling)

    return _of_reads(
        source,
        context,
        filled if layer.filling is not None else lambda read, i: _of_runs(read, layer.runs, i),
        is_image=source.is_image,
        keeps_channels=layer.before[1:2] == (0,) and source.shape[1:2] == context.shape[1:2],
    )


def _of_runs(read: _Read, runs: tuple[tuple[Run, ...], ...], i: tuple[Expr, ...], outer: tuple[Expr, ...] = ()) -> Expr:
    """A select among the reads of all runs; ``outer``: source indices of the first dimensions, already chosen."""
    if len(outer) == len(i):
        return read(outer)
    along, end = i[len(outer)], sum(run.count for run in runs[len(outer)])
    found: Expr | None = None
    for run in reversed(runs[len(outer)]):
        begin = end - run.count
        start = run.start - run.step * begin
        own = along if (start, run.step) == (0, 1) else along * run.step + start
        part = _of_runs(read, runs, i, (*outer, own))
        found = part if found is None else select(along < end, part, found)
        end = begin
    assert found is not None, "a dimension must have a run"
    return found


def _concat(layer: Concat, data: tuple[Value, ...], context: Context) -> Value:
    """A concatenation; padding channels of the operands stay in between, so that each starts at a vector boundary."""
    is_image = data[0].is_image
    data = tuple(
        value.in_layout(f"{context.name}.data{n}", context.lanes, is_image=is_image) for n, value in enumerate(data)
    )
    channels = layer.axis == 1 and is_image
    starts, positions, end = [], list[int](), 0
    for value in data:
        starts.append(end)
        if channels:
            positions += [end + position for position in (value.positions or range(value.shape[1]))]
        end += value.width if channels else value.shape[layer.axis]

    def element(*i: Expr) -> Expr:
        along = i[-1] if channels else i[layer.axis]
        found: Expr | None = None
        for value, start, stop in reversed(list(zip(data, starts, [*starts[1:], end], strict=True))):
            position = along - start if start else along
            if channels:
                read: Expr = value.tensor[(*i[:-1], position)]
            else:
                read = value.at((*i[: layer.axis], position, *i[layer.axis + 1 :]))
            found = read if found is None else select(along < stop, read, found)
        assert found is not None, f"{context.name} has no operands"
        return found

    if not channels:
        return computed(context.shape, element, context.name, context.lanes, is_image=is_image)
    batch, _, height, width = context.image_shape
    made = compute((batch, height, width, end), element, context.name)
    return context.image(made, None if positions == list(range(context.shape[1])) else tuple(positions))


def _reshape(layer: Reshape, data: tuple[Value, ...], context: Context) -> Value:  # noqa: ARG001 - one signature
    source = data[0]
    seen = source.reshaped(context.shape) if context.is_view and not source.is_image else None
    if seen is not None:
        return seen
    if source.is_image and context.read_as_image and source.image_shape == context.image_shape:
        return context.image(compute(source.tensor.shape, lambda *i: source.tensor[i], context.name), source.positions)
    source = source.dense(f"{context.name}.data")
    flat = source.tensor
    if not _is_in_order(source):
        flat = context.as_plain(source).tensor
    if not context.read_as_image:
        return context.plain(reshaped(flat, context.shape, name=context.name))
    shaped = context.plain(reshaped(flat, context.shape, name=f"{context.name}.shaped"))
    return computed(context.shape, lambda *i: shaped.at(i), context.name, context.lanes, is_image=True)


def _is_in_order(value: Value) -> bool:
    """Whether a tensor is row-major as in ONNX: it is not an image, or has a single pixel or channel."""
    if value.axes is not None:
        return False
    return not value.is_image or value.image_shape[2:] == (1, 1) or value.shape[1] == 1


DATA_MOVEMENT: Mapping[type[Layer], Callable[..., Value]] = {
    Concat: _concat,
    Pad: _pad,
    Reshape: _reshape,
    Resize: _resize,
    Slice: _slice,
    Transpose: _transpose,
}
