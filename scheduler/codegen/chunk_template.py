"""The template of a chunk: expression, accesses and indices, prepared once for all iterations of enclosing loops."""

from collections.abc import Iterator, Mapping

from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.arith.loop_bounds import linear_index
from lathe.frontend.expr.nodes import Axis, Read, ReadAccess, Reduce
from lathe.scheduler.codegen.address_resolver import AddressResolver
from lathe.scheduler.codegen.in_place_checks import operand_in_place
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import Chunk, ChunkLoop, Index, Operand
from lathe.scheduler.isel.linearize_index import SplitNeeded, linearize_guarded_index, linearize_index
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.layout.rescaling import listed_extensions, lookup_hint, missing_extensions_of
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.rewriting.match_rescale import table_index
from lathe.scheduler.rewriting.undef import defined


class ChunkTemplate:
    """The parts of a chunk that do not depend on the values of the outer loops."""

    def __init__(self, node: ChunkNode, emitter: AddressResolver) -> None:
        computation = node.placement.state.computation
        if len(computation.bodies) > 1:
            raise EmitError(
                f"stage {computation.name} must compute one tensor to be scheduled by the user, not "
                f"{len(computation.bodies)}. Give each output a computation of its own, or leave scope, compute "
                "location and pragma of the stage to the build.",
                kind="limit",
            )
        computation = defined(computation)
        body = computation.bodies[0]
        self.reduction = body.kind if isinstance(body, Reduce) else None
        self.expression = body.body if isinstance(body, Reduce) else body
        self.accesses: list[tuple[ReadAccess, list[Linear]]] = []
        missing = missing_extensions_of(self.expression, emitter.config)
        if missing and node.role == "map" and isinstance(self.expression, Read):
            raise EmitError(
                f"Cannot emit stage {computation.name}: machine {emitter.config.name!r} lacks "
                f"{listed_extensions(missing)}. A machine's file lists its extensions.",
                kind="machine",
            )
        self.refusal: EmitError | None = None  # for rules without table look-ups
        if node.role != "init":
            for access in computation.reads:
                indices: list[Linear] = []
                for index in access.indices:
                    linear = linear_index(index, node.roots)
                    if linear is None:
                        refusal = EmitError(
                            f"index of {access.tensor.name} in stage {computation.name} must be linear in the loops, "
                            f"not {index}: instructions have linear addresses only."
                            f"{lookup_hint(access.node, index, emitter.config)}",
                            kind="machine",
                        )
                        if indices or table_index(access.node) is None:
                            raise refusal
                        self.refusal, linear = refusal, Linear(0)
                    indices.append(linear)
                self.accesses.append((access, emitter.folded(access.tensor, indices)))
        target = [node.roots[axis] for axis in computation.axes]
        self.target = emitter.folded(node.placement.state.tensor, target)
        self.ranges = tuple(range(extent) for _, extent in node.loops)
        unrolled = {v for leaf in node.placement.state.unrolled for v in node.placement.loops.of_leaf.get(leaf, ())}
        self.unrolled = frozenset(n for n, (v, _) in enumerate(node.loops) if v in unrolled)

    def chunks(
        self, emitter: AddressResolver, node: ChunkNode, environment: Mapping[LoopVariable, int], rule: str, role: str
    ) -> Iterator[Chunk]:
        """The chunk at some values of the outer loops, cut where an index is not linear in all of it."""
        if self.refusal is not None and not RULES[rule].looks_up:
            raise self.refusal
        stage = node.placement.stage
        alias = emitter.aliases.get(stage)
        aliased = alias.tensor if alias is not None else None
        if stage.state.storage is not None:
            shape = emitter.shape_of(stage)
            aliased = operand_in_place(node, environment, self.target, self.accesses, shape, emitter.config)
        parts = [self.ranges]
        while parts:
            part = parts.pop()
            try:
                yield self._chunk(emitter, node, environment, rule, role, part, aliased)
            except SplitNeeded as bend:
                if role == "reduce" and node.loops[bend.loop][0].kind == "reduce":
                    raise EmitError(
                        f"reduction of stage {node.placement.state.computation.name} must have linear indices for rule "
                        f"{rule!r}, which emits the whole reduction at once. Split loop "
                        f"{node.loops[bend.loop][0].name} where the result of a division in an index changes, or "
                        "register the rule with separate_init=True.",
                        kind="limit",
                    ) from None
                for cut in (part[bend.loop][bend.count :], part[bend.loop][: bend.count]):
                    parts.append((*part[: bend.loop], cut, *part[bend.loop + 1 :]))

    def _chunk(
        self,
        emitter: AddressResolver,
        node: ChunkNode,
        environment: Mapping[LoopVariable, int],
        rule: str,
        role: str,
        ranges: tuple[range, ...],
        aliased: Tensor | None,
    ) -> Chunk:
        state = node.placement.state
        loops = [(variable, part) for (variable, _), part in zip(node.loops, ranges, strict=True)]

        def at(linear: Linear) -> Index:
            return linearize_index(linear, loops, environment)

        axes: dict[Axis, Index] = {axis: at(value) for axis, value in node.roots.items()}
        target = tuple(at(value) for value in self.target)
        stage = node.placement.stage
        write = Operand(state.tensor, target, emitter.place(state.tensor, stage))
        reads = tuple(
            Operand(
                access.tensor,
                tuple(linearize_guarded_index(linear, loops, environment, access.guards, axes) for linear in indices),
                emitter.place(access.tensor, stage),
                access.node,
                access.guards,
            )
            for access, indices in self.accesses
        )
        return Chunk(
            state.computation.name,
            rule,
            role,
            tuple(ChunkLoop(variable.name, len(part), variable.kind) for variable, part in loops),
            axes,
            self.expression,
            self.reduction,
            write,
            reads,
            {variable.name: value for variable, value in environment.items()},
            emitter.config,
            emitter,
            self.unrolled,
            aliased,
        )
