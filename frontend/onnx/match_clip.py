"""Rectifiers and clips: the limits that they set to numbers."""

from typing import Any

import numpy as np

from lathe.frontend.onnx.reading import Model, attributes_of


def limits_of(model: Model, node: Any) -> tuple[float, float] | None:
    """The least and the greatest number that a rectifier or a clip makes.

    None of any other node, and if they are no constants, or no numbers.
    """
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type != "Clip":
        return None
    attributes = attributes_of(node)
    limits = [attributes.get("min", -np.inf), attributes.get("max", np.inf)]
    for place, given in enumerate(node.input[1:]):
        held = model.constant(given) if given else np.array(limits[place])
        if held is None or np.isnan(held).any():
            return None
        limits[place] = float(held.reshape(-1)[0])
    return min(limits), limits[1]
