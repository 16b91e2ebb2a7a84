"""Padding of images."""

from lathe.frontend.expr.arithmetic import const, select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import Image, ImageLayout, Padding, Sides, image, in_layout, sides
from lathe.frontend.tensor.compute import compute


def pad2d(
    data: Tensor, padding: Padding, *, value: int = 0, layout: ImageLayout = "NHWC", name: str = "pad2d"
) -> Tensor:
    """``data`` with rows and columns of ``value`` around each image, of the same dtype.

    data (N, H, W, C) → (N, top + H + bottom, left + W + right, C), or in NCHW. ``padding`` is one number for all
    sides, (vertical, horizontal) or ((top, bottom), (left, right)).
    out[n, y, x, c] = data[n, y − top, x − left, c] inside, ``value`` outside.

    Raises TensorError for a wrong rank, layout, padding or value.
    """
    where = f"pad2d {name!r}"
    extents = image(data, layout, where)
    around = sides(padding, f"padding of {where}")
    fill = const(value, data.dtype)
    padded = Image(
        extents.batch,
        around.top + extents.height + around.bottom,
        around.left + extents.width + around.right,
        extents.channels,
        extents.layout,
    )

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        read = data[in_layout(extents.layout, n, y - around.top, x - around.left, c)]
        inside = _inside(extents, around, y, x)
        return read if inside is None else select(inside, read, fill)

    function = (
        (lambda n, y, x, c: element(n, y, x, c)) if layout == "NHWC" else (lambda n, c, y, x: element(n, y, x, c))
    )
    attrs = {"operator": "pad2d", "padding": ((around.top, around.bottom), (around.left, around.right))}
    return compute(padded.shape(), function, name, attrs={**attrs, "value": value, "layout": layout})


def _inside(extents: Image, around: Sides, y: Expr, x: Expr) -> Expr | None:
    """The condition that a point of the padded image is inside the original image; None if nothing is padded."""
    terms = []
    if around.top:
        terms.append(y >= around.top)
    if around.bottom:
        terms.append(y < around.top + extents.height)
    if around.left:
        terms.append(x >= around.left)
    if around.right:
        terms.append(x < around.left + extents.width)
    condition = terms[0] if terms else None
    for term in terms[1:]:
        assert condition is not None
        condition = condition & term
    return condition
