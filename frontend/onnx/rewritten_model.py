"""A model as layers are looked for in it, written otherwise than the host runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.value_types import TensorType


@dataclass(frozen=True, eq=False)
class RewrittenModel:
    """A model whose nodes are written otherwise; of each node the number of the model's for which it stands.

    ``inner`` are tensors of 8 bits that the model itself has not, so that none but layers can make them; ``known_as``
    is what the model calls numbers that have another name here.
    """

    model: Model
    origins: Sequence[int]
    inner: frozenset[str] = frozenset()
    known_as: Mapping[str, str] = field(default_factory=dict)

    def with_nodes(
        self, nodes: Sequence[Any], origins: Sequence[int], held: Mapping[str, Any], types: Mapping[str, TensorType]
    ) -> "RewrittenModel":
        """The view with other nodes, and with constants (TensorProto) and types that it has not yet."""
        proto = extra("onnx").ModelProto(ir_version=self.model.proto.ir_version)
        proto.opset_import.extend(self.model.proto.opset_import)
        proto.functions.extend(self.model.proto.functions)
        proto.graph.name = "view"
        proto.graph.node.extend(nodes)
        made = replace(
            self.model, proto=proto, initializers={**self.model.initializers, **held},
            types={**self.model.types, **types}, _constants={},
        )  # fmt: skip
        return replace(self, model=made, origins=origins)
