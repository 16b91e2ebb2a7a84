"""A model rewritten for layer matching, with the original node of each node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.value_types import TensorType


@dataclass(frozen=True, eq=False)
class RewrittenModel:
    """A model with rewritten nodes; ``origins``: for each node the number of the original node that it replaces.

    ``inner``: new 8-bit tensors, which only layers can compute, as the host CPU runs the original nodes. ``known_as``:
    original names of renamed tensors, for messages.
    """

    model: Model
    origins: Sequence[int]
    inner: frozenset[str] = frozenset()
    known_as: Mapping[str, str] = field(default_factory=dict)

    def with_nodes(
        self, nodes: Sequence[Any], origins: Sequence[int], held: Mapping[str, Any], types: Mapping[str, TensorType]
    ) -> "RewrittenModel":
        """The same with other nodes, and with additional constants (TensorProto) and types."""
        proto = optional_import("onnx").ModelProto(ir_version=self.model.proto.ir_version)
        proto.opset_import.extend(self.model.proto.opset_import)
        proto.functions.extend(self.model.proto.functions)
        proto.graph.name = "view"
        proto.graph.node.extend(nodes)
        made = replace(
            self.model, proto=proto, initializers={**self.model.initializers, **held},
            types={**self.model.types, **types}, _constants={},
        )  # fmt: skip
        return replace(self, model=made, origins=origins)
