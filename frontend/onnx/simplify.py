"""A model before layers are looked for: with what is fixed when its shapes are, computed.

Functions of the model's own are their nodes, constants and shapes are initializers, constants that are dequantised are
moved before, branches of constant conditions are taken, copies are left out. Each may give another its chance, so all
are done until nothing changes. What nodes stay have their names, and compute what they did.
"""

from typing import Any

from lathe.frontend.onnx.check_model import with_shapes
from lathe.frontend.onnx.declared_shapes import close_outputs, open_outputs
from lathe.frontend.onnx.decompose_fused_ops import with_fused_products_apart
from lathe.frontend.onnx.eliminate_identities import without_copies
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.fix_ceil_mode import with_begun_windows_counted
from lathe.frontend.onnx.fix_pool_shapes import with_windows_counted
from lathe.frontend.onnx.fold_constants import with_constants_computed, with_constants_held
from lathe.frontend.onnx.fold_if import with_branches_taken
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.rename_values import all_names, fresh, rename
from lathe.frontend.onnx.sink_dq_through_moves import with_constants_moved

MOST_ROUNDS = 32
"""Branches inside of branches are taken one level after the other."""


def simplified(proto: Any, name: str) -> Any:
    """The model of a ModelProto, which stays as it is, simplified, with the shapes of its tensors."""
    inlined = _with_functions_inlined(proto)
    if inlined is proto:
        inlined = type(proto).FromString(proto.SerializeToString())
    with_fused_products_apart(inlined)
    declared = open_outputs(inlined.graph)
    found = with_shapes(inlined, name)
    if close_outputs(found.graph, declared):
        found = with_shapes(found, name)
    _make_nodes_of_sparse(found.graph)
    steps = dict.fromkeys(
        (
            with_begun_windows_counted,
            with_windows_counted,
            with_constants_held,
            with_constants_computed,
            with_constants_moved,
            with_branches_taken,
            without_copies,
        )
    )
    changed = True
    for _ in range(MOST_ROUNDS):
        if not changed:
            break
        changed = False
        for step in list(steps):
            before = _Before(found.graph)
            if not step(found):
                continue
            try:
                found = with_shapes(found, name)
            except ModelError:  # what is known now is checked more strictly: it is better not known
                before.restore(found.graph)
                del steps[step]
            else:
                changed = True
    _make_outputs(found.graph)
    _drop_unread(found.graph)
    return found


def _make_nodes_of_sparse(graph: Any) -> None:
    """Hold sparse constants in nodes: they are dense when the host has computed them, and not before."""
    make_node = extra("onnx.helper").make_node
    made = [make_node("Constant", [], [each.values.name], each.values.name, sparse_value=each)
            for each in graph.sparse_initializer]  # fmt: skip
    if made:
        del graph.sparse_initializer[:]
        nodes = [*made, *(type(node).FromString(node.SerializeToString()) for node in graph.node)]
        del graph.node[:]
        graph.node.extend(nodes)


class _Before:
    """A graph as it was: steps change nodes, and add initializers."""

    def __init__(self, graph: Any) -> None:
        self.kept = type(graph)()
        self.kept.node.extend(graph.node)
        self.kept.value_info.extend(graph.value_info)
        self.counts = len(graph.initializer), len(graph.sparse_initializer)

    def restore(self, graph: Any) -> None:
        for field, kept in ((graph.node, self.kept.node), (graph.value_info, self.kept.value_info)):
            del field[:]
            field.extend(kept)
        for field, count in zip((graph.initializer, graph.sparse_initializer), self.counts, strict=True):
            del field[count:]


def _with_functions_inlined(proto: Any) -> Any:
    if not proto.functions:
        return proto
    onnx = extra("onnx")
    try:
        return extra("onnx.inliner").inline_local_functions(proto)
    except (RuntimeError, ValueError, onnx.checker.ValidationError):
        return proto  # the host runs them as they are


def _make_outputs(graph: Any) -> None:
    """Make outputs that are initializers by nodes, for only nodes are computed."""
    held = {each.name: each for each in graph.initializer}
    constant = [each.name for each in graph.output if each.name in held]
    if not constant:
        return
    taken = all_names(graph)
    names = {name: fresh(f"{name}/held", taken) for name in constant}
    for node in graph.node:
        rename(node, names)
    for name, new in names.items():
        held[name].name = new
        graph.node.append(extra("onnx.helper").make_node("Identity", [new], [name], name))


def _drop_unread(graph: Any) -> None:
    """Leave out initializers that nobody reads (any longer), and the inputs whose defaults they are."""
    read = {name for node in graph.node for name in names_read(node)}
    held = {each.name for each in graph.initializer}
    if held <= read:
        return
    kept = [each for each in graph.initializer if each.name in read]
    inputs = [each for each in graph.input if each.name in read or each.name not in held]
    copies = [[type(each).FromString(each.SerializeToString()) for each in chosen] for chosen in (kept, inputs)]
    for field, chosen in zip((graph.initializer, graph.input), copies, strict=True):
        del field[:]
        field.extend(chosen)
