"""Spatial dimensions of the data of a GEMM (those not in the lanes), and copies that gather along them."""

from lathe.configs import HardwareConfig
from lathe.frontend import as_affine
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by, is_plain_read
from lathe.scheduler.schedule_ir.memories import INP
from lathe.scheduler.schedule_ir.schedule_state import StageView


def spatial_dims_of(product: GemmMatch, config: HardwareConfig) -> list[int]:
    """The dimensions of a GEMM's data that are not in the lanes; the last is that of pixels in a row."""
    element = vector_type_of(config, INP)
    sides = ((product.row, element.rows), (product.inner, element.cols))
    lanes = [dim_indexed_by(product.data, axis) for axis, values in sides if values > 1]
    return [dim for dim in range(product.data.tensor.ndim) if dim not in lanes]


def gathers(stage: StageView, product: GemmMatch, config: HardwareConfig) -> bool:
    """Whether a stage copies only some pixels or rows of a tensor, in order, to be the data of a GEMM."""
    body = stage.state.computation.bodies[0]
    if product.data.tensor is not stage.tensor or not is_plain_read(body) or len(stage.state.tensors) > 1:
        return False
    if stage.state.computation.reduce_axes:
        return False
    axes, pixels = list(enumerate(stage.state.computation.axes)), spatial_dims_of(product, config)
    some = False
    for index, extent in zip(body.indices, body.tensor.shape, strict=True):
        form = as_affine(index)
        if form is not None and not form.coefficients and (extent > 1 or not axes or axes[0][1].extent > 1):
            some = True  # one phase of an input that is packed by space-to-depth
            continue
        if form is None or not axes:
            return False
        dim, axis = axes.pop(0)
        step = form.coefficients.get(axis, 1)
        whole = not form.const and step == 1 and axis.extent == extent
        if not form.coefficients.keys() <= {axis} or step < 0 or (dim not in pixels and not whole):
            return False
        some = some or step > 1
    return some and not axes
