"""Programs in notebooks: instruction counts by layer, the memory map of DRAM, and the instruction stream."""

from collections import Counter
from itertools import islice

from lathe.configs.html_repr import html_of
from lathe.isa import Finding, Layout, Program, Segment, instruction_text
from lathe.reports.markup import Markup
from lathe.reports.notebooks.fragments import facts, folded, grouped, hbox, panel, size, table, text_block

FIRST = 200
"""Instructions that are shown as text, at most."""


@html_of.register
def program(value: Program) -> str:
    """A program: its layers, its memory map, and its first instructions."""
    kinds = Counter(type(each).__name__.upper() for each in value.instructions)
    tokens = value.tokens_in if any(value.tokens_in) else None
    head = facts([
        ("machine", value.config.name),
        ("instructions", len(value.instructions)),
        ("DRAM", size(value.memory_end)),
        ("MACs of the algorithm", value.products),
        ("tokens before the launch", None if tokens is None else ", ".join(map(str, tokens))),
    ])  # fmt: skip
    parts = [hbox(head, table(("instruction", "count"), kinds.most_common())), segments(value.segments)]
    parts += [folded("Instructions for each layer", _labels(value))] if len(value.labels) > 1 else []
    lines = (f"{number:5} {instruction_text(each)}" for number, each in enumerate(value.instructions))
    title = "Instructions" if len(value.instructions) <= FIRST else f"The first {FIRST} instructions"
    parts.append(folded(title, text_block("\n".join(islice(lines, FIRST)))))
    return panel(f"Program of {grouped(len(value.instructions))} instructions for {value.config.name}", *parts)


@html_of.register
def layout(value: Layout) -> str:
    """The layout of a tensor in DRAM: its physical axes, outermost first, as digits of the logical ones."""
    axes = [("-" if each.axis < 0 else each.axis, each.divisor, each.extent) for each in value.axes]
    head = facts([
        ("tensor", _tensor(value)),
        ("stored as", value.storage or None),
        ("padding value", value.pad_value),
        ("in DRAM", size(value.nbytes)),
    ])  # fmt: skip
    return panel("Layout", head, table(("logical axis", "divided by", "extent"), axes, left=0))


@html_of.register
def finding(value: Finding) -> str:
    """A finding of the verifier."""
    return panel(f"Finding: {value.kind}", text_block(str(value)))


def segments(given: tuple[Segment, ...]) -> Markup:
    """The memory map of DRAM."""
    rows = [
        (each.name, each.role, _tensor(each.layout), f"{each.address:#x}", size(each.nbytes))
        for each in sorted(given, key=lambda each: each.address)
    ]
    return table(("segment", "holds", "tensor", "address", "size"), rows, left=4)


def _tensor(layout: Layout | None) -> str:
    return "" if layout is None else f"{layout.dtype} {' × '.join(map(str, layout.shape)) or 'scalar'}"


def _labels(value: Program) -> Markup:
    names = [type(each).__name__.upper() for each in value.instructions]
    kinds = list(dict.fromkeys(names))
    counts: dict[int, Counter[str]] = {}
    for label, name in zip(value.label_of.tolist(), names, strict=True):
        counts.setdefault(label, Counter())[name] += 1
    rows = [(value.labels[label], *(found[kind] for kind in kinds)) for label, found in sorted(counts.items())]
    return table(("layer", *kinds), rows)
