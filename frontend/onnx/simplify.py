"""Simplification of a model before layers are matched.

Local functions are inlined and fused operators decomposed. Then rewrites run to a fixpoint: pools get onnxruntime's
window counts, constants and shapes are folded, DequantizeLinear is sunk, constant branches are taken, identities are
eliminated. Remaining nodes keep their names and results.
"""

from typing import Any

from lathe.frontend.onnx.canonicalize import canonicalize
from lathe.frontend.onnx.check_model import with_shapes
from lathe.frontend.onnx.declared_shapes import clear_output_shapes, restore_output_shapes
from lathe.frontend.onnx.decompose_fused_ops import decompose_fused_ops
from lathe.frontend.onnx.eliminate_identities import eliminate_identities
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.fix_ceil_mode import fix_ceil_mode
from lathe.frontend.onnx.fix_pool_shapes import fix_pool_shapes
from lathe.frontend.onnx.fold_constants import fold_constant_nodes, fold_constants
from lathe.frontend.onnx.fold_if import fold_if
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import all_names, rename, unique_name
from lathe.frontend.onnx.sink_dq_through_moves import sink_dequantise

MOST_ROUNDS = 32
"""One round takes one level of nested branches."""


def simplified(proto: Any, name: str) -> Any:
    """A simplified copy of a ModelProto, with the shapes of its tensors."""
    inlined = _with_functions_inlined(proto)
    if inlined is proto:
        inlined = type(proto).FromString(proto.SerializeToString())
    decompose_fused_ops(inlined)
    declared = clear_output_shapes(inlined.graph)
    found = with_shapes(inlined, name)
    if restore_output_shapes(found.graph, declared):
        found = with_shapes(found, name)
    _move_sparse_to_nodes(found.graph)
    steps = dict.fromkeys(
        (
            canonicalize,
            fix_ceil_mode,
            fix_pool_shapes,
            fold_constant_nodes,
            fold_constants,
            sink_dequantise,
            fold_if,
            eliminate_identities,
        )
    )
    changed = True
    for _ in range(MOST_ROUNDS):
        if not changed:
            break
        changed = False
        for step in list(steps):
            snapshot = _Snapshot(found.graph)
            if not step(found):
                continue
            try:
                found = with_shapes(found, name)
            except ModelError:  # known values are checked more strictly: leave them unknown
                snapshot.restore(found.graph)
                del steps[step]
            else:
                changed = True
    _add_output_nodes(found.graph)
    _remove_dead_initializers(found.graph)
    return found


def _move_sparse_to_nodes(graph: Any) -> None:
    """Move sparse initializers to Constant nodes: they stay sparse until the host CPU computes them."""
    make_node = optional_import("onnx.helper").make_node
    made = [make_node("Constant", [], [each.values.name], each.values.name, sparse_value=each)
            for each in graph.sparse_initializer]  # fmt: skip
    if made:
        del graph.sparse_initializer[:]
        nodes = [*made, *(type(node).FromString(node.SerializeToString()) for node in graph.node)]
        del graph.node[:]
        graph.node.extend(nodes)


class _Snapshot:
    """A snapshot of a graph before a rewrite, which may change nodes and add initializers."""

    def __init__(self, graph: Any) -> None:
        self.saved = type(graph)()
        self.saved.node.extend(graph.node)
        self.saved.value_info.extend(graph.value_info)
        self.counts = len(graph.initializer), len(graph.sparse_initializer)

    def restore(self, graph: Any) -> None:
        for field, saved in ((graph.node, self.saved.node), (graph.value_info, self.saved.value_info)):
            del field[:]
            field.extend(saved)
        for field, count in zip((graph.initializer, graph.sparse_initializer), self.counts, strict=True):
            del field[count:]


def _with_functions_inlined(proto: Any) -> Any:
    if not proto.functions:
        return proto
    onnx = optional_import("onnx")
    try:
        return optional_import("onnx.inliner").inline_local_functions(proto)
    except (RuntimeError, ValueError, onnx.checker.ValidationError):
        return proto  # the host CPU runs the calls


def _add_output_nodes(graph: Any) -> None:
    """Add Identity nodes for outputs that are initializers: only outputs of nodes are computed."""
    held = {each.name: each for each in graph.initializer}
    constant = [each.name for each in graph.output if each.name in held]
    if not constant:
        return
    taken = all_names(graph)
    names = {name: unique_name(f"{name}/held", taken) for name in constant}
    for node in graph.node:
        rename(node, names)
    for name, new in names.items():
        held[name].name = new
        graph.node.append(optional_import("onnx.helper").make_node("Identity", [new], [name], name))


def _remove_dead_initializers(graph: Any) -> None:
    """Remove dead initializers, and the inputs that they are the defaults of."""
    read = {name for node in graph.node for name in names_read(node)}
    held = {each.name for each in graph.initializer}
    if held <= read:
        return
    live = [each for each in graph.initializer if each.name in read]
    inputs = [each for each in graph.input if each.name in read or each.name not in held]
    copies = [[type(each).FromString(each.SerializeToString()) for each in chosen] for chosen in (live, inputs)]
    for field, chosen in zip((graph.initializer, graph.input), copies, strict=True):
        del field[:]
        field.extend(chosen)
