"""Splits the epilogue of a nest: the last iteration is peeled, and its last chunks are computed and stored in slices.

A store begins when all that it stores is computed, and nothing is computed during the last one. Where each of the last
chunks reads the result of the one before element by element, they are cut alike along one loop, so that one slice is
stored while the next ones are computed::

    rescale(i3 in 0..64), dma(i3 in 0..64)   ->   4 slices of: rescale(i3 in 0..16), dma(i3 in 0..16)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.arith.loop_bounds import linear_index
from lathe.scheduler.loop_ir.nodes import Alloc, ChunkNode, Free, Loop, Node, PipelinedChunks

Along = tuple[ChunkNode, int, LoopVariable, Linear]
"""A chunk, a dimension of its result, its loop along this dimension, and the first index there."""
Chain = list[Along]
"""Consecutive chunks, each along a loop that all of them have, the storing one first."""
Cutter = Callable[[Sequence[Chain]], tuple[Chain, int] | None]
"""Chooses the chain that is cut, and the iterations of the loop per slice; None: no chain is cut."""


def split_epilogue(nodes: Sequence[Node], stores: Callable[[ChunkNode], bool], cutter: Cutter) -> list[Node]:
    """Peel the last iterations of outermost loops, and cut the chunks they end with if the last one ``stores``."""
    last = {node.variable: node for node in nodes if isinstance(node, Loop)}  # partitioning may have cut a loop
    end = next((node for node in reversed(nodes) if not isinstance(node, Free)), None)
    peeled: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop) and node is last[node.variable] and node is not end:
            peeled += _peeled(node, stores, cutter)
        else:
            peeled.append(node)
    return _tail(peeled, stores, cutter)


def _peeled(loop: Loop, stores: Callable[[ChunkNode], bool], cutter: Cutter, again: bool = False) -> list[Node]:
    again = again or loop.first != loop.last
    body = _tail(loop.body, stores, cutter, again) if loop.threads == 1 and not loop.across_cores else list(loop.body)
    if len(body) == len(loop.body) and all(new is old for new, old in zip(body, loop.body, strict=True)):
        return [loop]
    last = replace(loop, first=loop.last, body=tuple(body))
    return [last] if loop.first == loop.last else [replace(loop, last=loop.last - 1), last]


def _tail(
    nodes: Sequence[Node], stores: Callable[[ChunkNode], bool], cutter: Cutter, again: bool = False
) -> list[Node]:
    """The body of a last iteration, with its last chunks in slices; ``again``: there are iterations before it."""
    end = next((n for n in range(len(nodes) - 1, -1, -1) if not isinstance(nodes[n], Free)), 0)
    last = nodes[end] if nodes else None
    if isinstance(last, Loop):
        return [*nodes[:end], *_peeled(last, stores, cutter, again), *nodes[end + 1 :]]
    if not isinstance(last, ChunkNode) or not stores(last):
        return list(nodes)
    loop, inside = _reduction_loop(nodes[:end])
    before = nodes[:end] if loop is None else [*inside, *nodes[loop + 1 : end]]
    chosen = cutter([list(_chain(each, before, before if again else inside)) for each in _along(last)])
    if chosen is None:
        return list(nodes)
    chain, size = chosen
    slices = PipelinedChunks(tuple(tuple(_cut(chunk, each, size)) for chunk, _, each, _ in reversed(chain)))
    earliest = chain[-1][0]
    begin = next((n for n, node in enumerate(nodes) if node is earliest), loop)
    assert begin is not None, "a chain of chunks is outside the nest"
    first = nodes[begin]
    others = [node for node in nodes[begin : end + 1] if not isinstance(node, ChunkNode | Loop)]
    allocated = [node for node in others if isinstance(node, Alloc)]
    freed = [node for node in others if isinstance(node, Free)]
    if not isinstance(first, Loop):
        return [*nodes[:begin], *allocated, slices, *freed, *nodes[end + 1 :]]
    body = [slices if node is earliest else node for node in first.body]
    peeled = [replace(first, last=first.last - 1), replace(first, first=first.last, body=tuple(body))]
    return [*nodes[:begin], *allocated, *peeled, *freed, *nodes[end + 1 :]]


def _reduction_loop(nodes: Sequence[Node]) -> tuple[int | None, Sequence[Node]]:
    """The position and the body of the last loop, if it is over slices of a reduction; otherwise None."""
    index = next((n for n in range(len(nodes) - 1, -1, -1) if isinstance(nodes[n], Loop)), None)
    loop = None if index is None else nodes[index]
    if index is None or not isinstance(loop, Loop) or loop.threads != 1 or loop.across_cores or loop.first == loop.last:
        return None, ()
    last = [node for node in loop.body if not isinstance(node, Free)][-1:]
    if not (last and isinstance(last[0], ChunkNode) and last[0].role == "update"):
        return None, ()
    return index, loop.body


def _along(chunk: ChunkNode) -> Iterator[Along]:
    """A chunk along each dimension that exactly one of its loops traverses, with stride 1."""
    computation = chunk.placement.state.computation
    for dim, axis in enumerate(computation.axes):
        for loop, extent in chunk.loops:
            first = chunk.roots[axis] - Linear.of(loop)
            others = (root for each, root in chunk.roots.items() if each is not axis)
            own = {each for each, _ in chunk.loops}
            if extent > 1 and not own & first.terms.keys() and not any(loop in root.terms for root in others):
                yield chunk, dim, loop, first


def _chain(store: Along, before: Sequence[Node], sums: Sequence[Node]) -> Iterator[Along]:
    """The chunks that a nest ends with, the storing one first, as far back as slice n of each needs slice n only.

    The earliest may be one of ``sums``: the last slice of a reduction, or a reduction that follows others. A reduction
    that the program begins with is not cut: its first slice would wait for the data of the whole reduction.
    """
    yield store
    reads = dict(_read(store))
    for node in reversed(before):
        if isinstance(node, Alloc | Free):
            continue
        tensor = node.placement.state.tensor if isinstance(node, ChunkNode) else None
        if not isinstance(node, ChunkNode) or tensor is None or reads.get(tensor) is None:
            return
        if node.role != "map" and not any(node is each for each in sums):
            return
        extent = dict(store[0].loops)[store[2]]
        found = [each for each in _along(node) if reads[tensor] == (each[1], each[3])]
        if len(found) != 1 or dict(node.loops)[found[0][2]] != extent:
            return
        if node.role == "update" and _in_windows(found[0]):
            return
        for read, along in _read(found[0]):
            reads[read] = along if reads.get(read, along) == along else None
        yield found[0]
        if node.role == "update":  # every slice of a reduction reads all of its operands
            return


def _in_windows(along: Along) -> bool:
    """Whether a chunk reads windows along its loop, which may overlap padding, so that it must not be cut there."""
    chunk, _, loop, _ = along
    own = {each for each, extent in chunk.loops if extent > 1}
    indices = [linear_index(each, chunk.roots) for a in chunk.placement.state.computation.reads for each in a.indices]
    return any(index is None or (_depends(index, loop) and len(own & index.variables()) > 1) for index in indices)


def _read(along: Along) -> Iterator[tuple[Tensor, tuple[int, Linear] | None]]:
    """The tensors that a chunk reads, each with the dimension along its loop and the first index there, if any."""
    chunk, _, loop, _ = along
    for access in chunk.placement.state.computation.reads:
        indices = [linear_index(index, chunk.roots) for index in access.indices]
        moving = [(dim, index) for dim, index in enumerate(indices) if index is None or _depends(index, loop)]
        if len(moving) == 1 and moving[0][1] is not None and not _depends(moving[0][1] - Linear.of(loop), loop):
            yield access.tensor, (moving[0][0], moving[0][1] - Linear.of(loop))
        else:
            yield access.tensor, None


def _depends(index: Linear, loop: LoopVariable) -> bool:
    return loop in index.variables()


def _cut(chunk: ChunkNode, loop: LoopVariable, size: int) -> Iterator[ChunkNode]:
    """A chunk in slices of ``size`` iterations of one of its loops."""
    extent = dict(chunk.loops)[loop]
    for first in range(0, extent, size):
        loops = tuple((each, min(size, extent - first) if each is loop else count) for each, count in chunk.loops)
        shift: Mapping[LoopVariable, Linear] = {loop: Linear.of(loop) + first}
        roots = {axis: root.substitute(shift.get) for axis, root in chunk.roots.items()} if first else chunk.roots
        yield replace(chunk, loops=loops, roots=roots)
