"""Values moved, and none computed: other indices, other shapes, tensors behind each other."""

from collections.abc import Callable, Mapping

from lathe.frontend import compute, select
from lathe.frontend.onnx.layers import Concat, Layer, Pad, Reshape, Resize, Slice, Transpose
from lathe.frontend.operand import Expr
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_programs.context import Context
from lathe.networks.values import Value, computed


def _transpose(layer: Transpose, data: tuple[Value, ...], context: Context) -> Value:
    places = [layer.order.index(n) for n in range(len(layer.order))]
    keeps = places[1:2] == [1]
    return _moved(data[0], context, lambda *i: tuple(i[place] for place in places), keeps_channels=keeps)


def _slice(layer: Slice, data: tuple[Value, ...], context: Context) -> Value:
    return _moved(
        data[0],
        context,
        lambda *i: tuple(
            each * step + start if (start, step) != (0, 1) else each
            for each, start, step in zip(i, layer.starts, layer.steps, strict=True)
        ),
        keeps_channels=data[0].shape[1:2] == context.shape[1:2] and layer.starts[1:2] == (0,),
    )


def _resize(layer: Resize, data: tuple[Value, ...], context: Context) -> Value:
    return _moved(
        data[0],
        context,
        lambda *i: tuple(each // factor if factor > 1 else each for each, factor in zip(i, layer.factors, strict=True)),
        keeps_channels=layer.factors[1:2] == (1,),
    )


def _moved(source: Value, context: Context, place: Callable[..., tuple[Expr, ...]], *, keeps_channels: bool) -> Value:
    """The values of a tensor at other indices. Channels that stay where they are keep their places."""
    if source.is_image and len(context.shape) == 4 and keeps_channels:
        n, _, height, width = context.shape

        def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
            at_n, at_c, at_y, at_x = place(n, c, y, x)
            return source.tensor[at_n, at_y, at_x, at_c]

        return context.image(compute((n, height, width, source.width), own, context.name), source.places)
    return computed(context.shape, lambda *i: source.at(place(*i)), context.name, context.lanes)


def _pad(layer: Pad, data: tuple[Value, ...], context: Context) -> Value:
    (source,) = data

    def element(*i: Expr) -> Expr:
        inside: Expr | None = None
        for each, first, size, whole in zip(i, layer.before, source.shape, context.shape, strict=True):
            for there in ([each >= first] if first else []) + ([each < first + size] if first + size < whole else []):
                inside = there if inside is None else inside & there
        moved = source.at(tuple(each - first if first else each for each, first in zip(i, layer.before, strict=True)))
        return moved if inside is None else select(inside, moved, layer.of_output.own_zero)

    return computed(context.shape, element, context.name, context.lanes)


def _concat(layer: Concat, data: tuple[Value, ...], context: Context) -> Value:
    """Tensors behind each other; channels of nobody stay between, so that each begins with an element of its own."""
    channels = layer.axis == 1 and len(context.shape) == 4
    starts, places, end = [], list[int](), 0
    for value in data:
        starts.append(end)
        if channels:
            places += [end + place for place in (value.places or range(value.shape[1]))]
        end += value.width if channels else value.shape[layer.axis]

    def element(*i: Expr) -> Expr:
        along = i[-1] if channels else i[layer.axis]
        found: Expr | None = None
        for value, start, stop in reversed(list(zip(data, starts, [*starts[1:], end], strict=True))):
            place = along - start if start else along
            if channels:
                read: Expr = value.tensor[(*i[:-1], place)]
            else:
                read = value.at((*i[: layer.axis], place, *i[layer.axis + 1 :]))
            found = read if found is None else select(along < stop, read, found)
        assert found is not None, f"{context.name} is made of nothing"
        return found

    if not channels:
        return computed(context.shape, element, context.name, context.lanes)
    n, _, height, width = context.shape
    made = compute((n, height, width, end), element, context.name)
    return context.image(made, None if places == list(range(context.shape[1])) else tuple(places))


def _reshape(layer: Reshape, data: tuple[Value, ...], context: Context) -> Value:  # noqa: ARG001 - one signature
    source = data[0].dense(f"{context.name}.data")
    flat = source.tensor
    if not _is_in_order(source):
        n, channels, height, width = source.shape
        flat = compute(source.shape, lambda n, c, y, x: source.tensor[n, y, x, c], f"{context.name}.in_order")
    if len(context.shape) != 4:
        return context.image(reshaped(flat, context.shape, name=context.name))
    shaped = reshaped(flat, context.shape, name=f"{context.name}.shaped")
    return computed(context.shape, lambda *i: shaped[i], context.name, context.lanes)


def _is_in_order(value: Value) -> bool:
    """Whether the values of a tensor of a program lie as ONNX's do: no image, or one of one pixel or channel."""
    return not value.is_image or value.shape[2:] == (1, 1) or value.shape[1] == 1


MOVES: Mapping[type[Layer], Callable[..., Value]] = {
    Concat: _concat,
    Pad: _pad,
    Reshape: _reshape,
    Resize: _resize,
    Slice: _slice,
    Transpose: _transpose,
}
