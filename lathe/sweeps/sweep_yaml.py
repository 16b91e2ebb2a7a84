"""Base class of the sweep file's parsers: YAML mappings of known keys, and values, lists and ranges as axes."""

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import yaml

from lathe.configs.errors import KeyViolation, shown
from lathe.configs.validate_config import unknown
from lathe.configs.yaml_file import NotYamlError, YamlFile, line_of, value_of
from lathe.sweeps.specification import Axis, Span

Value = TypeVar("Value")

RANGE, DOUBLING = ("from", "to", "step"), "powers_of_two"


class SweepYaml(YamlFile):
    """Parser of mappings of known keys, and of axes."""

    def axis(self, keys: tuple[str, ...], node: yaml.Node) -> Axis:
        """A value, a list of values, or a range; with several keys a value may be a list of one for each."""
        if isinstance(node, yaml.MappingNode):
            return self._range(keys, node)
        values = self.value(node)
        steps: list[tuple[Any, ...]] = []
        for value in values if isinstance(values, list) else [values]:
            if len(keys) > 1 and isinstance(value, list) and len(value) == len(keys):
                steps.append(tuple(value))
            elif isinstance(value, list | dict):
                each = f"a list of {len(keys)}" if len(keys) > 1 else "a plain value"
                self.refuse_at(node, keys[0], f"A value of {', '.join(keys)}", f"{each}, not {value!r}", "Correct it.")
            else:
                steps.append((value,) * len(keys))
        for each in [value for step in steps for value in step]:
            if isinstance(each, float) and not math.isfinite(each):
                contract = f"a finite number, not {each!r}"
                self.refuse_at(node, keys[0], f"A value of {', '.join(keys)}", contract, "Correct it.")
        if not steps:
            self.refuse_at(node, keys[0], ", ".join(keys), "at least one value, not an empty list", "Add a value.")
        if (twice := repeated(steps)) is not None:
            values_twice = twice if len(set(map(repr, twice))) > 1 else twice[:1]
            contract = f"each given once, not twice: {', '.join(map(shown, values_twice))}"
            self.refuse_at(node, keys[0], f"The values of {', '.join(keys)}", contract, "Remove one of the two.")
        return Axis(keys, tuple(steps))

    def _range(self, keys: tuple[str, ...], node: yaml.MappingNode) -> Axis:
        """An axis of a range of integers, by a step or by doubling, both ends inclusive."""
        thing = f"The range of {', '.join(keys)}"
        entries = self.entries(node, (*RANGE, DOUBLING), thing, f"A key of the range of {', '.join(keys)}")
        if DOUBLING in entries:
            if len(entries) > 1:
                self.refuse_at(node, keys[0], thing, "powers_of_two alone, not with other keys", "Remove one of them.")
            return Axis(keys, self._doubling(keys, thing, entries[DOUBLING]))
        for key in RANGE[:2]:
            if key not in entries:
                self.refuse_at(node, keys[0], thing, f"complete, not without {key}", "A range needs from and to.")
        first, last, step = (self.value(entries[key]) if key in entries else 1 for key in RANGE)
        for key, value in zip(RANGE, (first, last, step), strict=True):
            if type(value) is not int or (key == "step" and value < 1):
                contract = "an integer" if key != "step" else "an integer of at least 1"
                self.refuse_at(entries[key], keys[0], f"{key} of {', '.join(keys)}", f"{contract}, not {shown(value)}",
                               "Correct it.")  # fmt: skip
        if last < first:
            self.refuse_at(
                node, keys[0], thing, f"a range with at least one number, not from {first} to {last}", "Swap the ends."
            )
        if (last - first) // step >= sys.maxsize:
            contract = f"a range of at most {sys.maxsize} numbers, not from {shown(first)} to {shown(last)}"
            self.refuse_at(node, keys[0], thing, contract, "Take a smaller one.")
        return Axis(keys, Span(range(first, last + 1, step), len(keys)))

    def _doubling(self, keys: tuple[str, ...], thing: str, node: yaml.Node) -> tuple[tuple[int, ...], ...]:
        ends = self.value(node)
        if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_power_of_two, ends)) or ends[0] > ends[1]:
            contract = f"two powers of two in rising order, not {shown(ends)}"
            self.refuse_at(node, keys[0], thing, contract, "Write 'powers_of_two: [8192, 65536]'.")
        first, last = (end.bit_length() - 1 for end in ends)
        return tuple((1 << exponent,) * len(keys) for exponent in range(first, last + 1))

    def entries(self, node: yaml.Node, known: Sequence[str], what: str, thing: str) -> dict[str, yaml.Node]:
        """The nodes of a mapping's values by key, which must be ``known``; any keys if ``known`` is empty."""
        entries: dict[str, yaml.Node] = {}
        for key, key_node, value_node in self.pairs_of(node, what):
            if known:
                self.check_known(key_node, key, known, thing)
            self.check_new(key_node, key, entries, "Key")
            entries[key] = value_node
        return entries

    def pairs_of(self, node: yaml.Node, what: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """The pairs of a node, which must be a mapping."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse_at(node, "", what, f"keys with values, not {self.shown(node)}", "Write 'key: value'.")
        return self.pairs(node)

    def items(self, node: yaml.Node) -> list[yaml.Node]:
        """The items of a list; any other node is its only item."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    def number(self, node: yaml.Node, key: str, where: str, least: int) -> int:
        """An integer of at least ``least``."""
        value = self.value(node)
        if type(value) is not int or value < least:
            contract = f"an integer of at least {least}, not {shown(value)}"
            self.refuse_at(node, key, f"{key} of {where}", contract, "Correct it.")
        return value

    def value(self, node: yaml.Node) -> Any:
        """A node as plain Python."""
        try:
            return value_of(node)
        except NotYamlError as error:
            self.refuse_at(node, "", "The value", f"plain YAML (reason: {error})", "Correct it.")

    def check_known(self, node: yaml.Node, key: str, known: Sequence[str], thing: str) -> None:
        """Refuse an unknown key."""
        if key not in known:
            self.refuse(line_of(node), unknown(key, known, thing))

    def check_new(self, node: yaml.Node, key: str, seen: Collection[str], kind: str) -> None:
        """Refuse a repeated key."""
        if key in seen:
            self.refuse_at(node, key, f"{kind} {key}", "given once, not twice", "Remove one of the two.")

    def refuse_at(self, node: yaml.Node, key: str, thing: str, contract: str, remedy: str) -> NoReturn:
        """Raise the error for a fault at `node`."""
        self.refuse(line_of(node), KeyViolation(key, thing, contract, remedy))


def repeated(values: Iterable[Value]) -> Value | None:
    """The first value that equals an earlier one in its ``repr``, or None."""
    seen = set()
    for value in values:
        if repr(value) in seen:
            return value
        seen.add(repr(value))
    return None


def _is_power_of_two(value: object) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0
