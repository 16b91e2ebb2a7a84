"""Dimensions of a product's data that run along no lanes, and copies of some of their elements."""

from lathe.configs import HardwareConfig
from lathe.frontend import as_affine
from lathe.scheduler.algorithm.patterns import dimension_of, is_plain_read
from lathe.scheduler.state.memories import DATA
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.element import element_of
from lathe.scheduler.target.products import Product


def pixels_of(product: Product, config: HardwareConfig) -> list[int]:
    """The dimensions of a product's data that run along no lanes: of these the last is that of pixels in a line."""
    element = element_of(config, DATA)
    sides = ((product.row, element.rows), (product.inner, element.cols))
    lanes = [dimension_of(product.data, axis) for axis, values in sides if values > 1]
    return [dim for dim in range(product.data.tensor.ndim) if dim not in lanes]


def gathers(stage: StageView, product: Product, config: HardwareConfig) -> bool:
    """Whether a stage copies some pixels or lines of a tensor, as they lie, for the data of a product."""
    body = stage.state.computation.bodies[0]
    if product.data.tensor is not stage.tensor or not is_plain_read(body) or len(stage.state.tensors) > 1:
        return False
    axes = stage.state.computation.axes
    if len(body.indices) != len(axes) or stage.state.computation.reduce_axes:
        return False
    steps: list[int] = []
    for dim, (index, axis, extent) in enumerate(zip(body.indices, axes, body.tensor.shape, strict=True)):
        form = as_affine(index)
        if form is None or form.coefficients.keys() != {axis}:
            return False
        steps.append(form.coefficients[axis])
        if dim not in pixels_of(product, config) and (form.const or steps[dim] != 1 or axis.extent != extent):
            return False
    return any(step > 1 for step in steps) and all(step > 0 for step in steps)
