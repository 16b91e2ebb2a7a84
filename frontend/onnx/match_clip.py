"""Match Relu and Clip."""

from typing import Any

import numpy as np

from lathe.frontend.onnx.reading import Model, attributes_of


def clip_bounds(model: Model, node: Any) -> tuple[float, float] | None:
    """The constant bounds that a Relu or Clip clamps to; None for other nodes, and for computed or NaN bounds."""
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type != "Clip":
        return None
    attributes = attributes_of(node)
    limits = [attributes.get("min", -np.inf), attributes.get("max", np.inf)]
    for index, name in enumerate(node.input[1:]):
        constant = model.constant(name) if name else np.array(limits[index])
        if constant is None or np.isnan(constant).any():
            return None
        limits[index] = float(constant.reshape(-1)[0])
    return min(limits), limits[1]
