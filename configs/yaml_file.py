"""Reader of YAML files whose errors name file, line and key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lathe.configs.errors import KeyViolation, LocatedError, shown

DEEPEST = 100
"""Maximum nesting of lists and keys: more than any valid file has, and less than Python's stack allows."""


def read_text(path: Path, what: str, remedy: str, error: type[LocatedError]) -> str:
    """The text of a file. Raises ``error`` if it cannot be read, with ``what`` the file is and a ``remedy``."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as reason:
        problem = f"must be readable, and is not: {reason.strerror or reason}. {remedy}"
    except UnicodeDecodeError as reason:
        problem = f"must be UTF-8 text, not {reason.object[reason.start]:#04x} at byte {reason.start}. Save as UTF-8."
    raise error(f"The {what} {path} {problem}", file=path)


class YamlFile:
    """The document of one file. Its mistakes are raised as ``error``, with their line.

    Its nodes are PyYAML's, which have line numbers.
    """

    def __init__(self, path: Path, text: str, error: type[LocatedError]) -> None:
        self.path = path
        self.error = error
        try:
            self.root = compose_yaml(text)
        except NotYamlError as reason:
            self.refuse_text(reason)

    def pairs(self, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """The keys of a mapping as strings, with their nodes and those of their values."""
        for key_node, value_node in node.value:
            yield str(self.value(key_node)), key_node, value_node

    def value(self, node: yaml.Node) -> Any:
        """A node as a plain Python value."""
        try:
            return value_of(node)
        except NotYamlError as reason:
            self.refuse_text(reason)

    def shown(self, node: yaml.Node) -> str:
        """A node's value, for messages."""
        return shown(self.value(node))

    def refuse(self, line: int | None, fault: KeyViolation) -> NoReturn:
        """Raise the error for a fault on a line."""
        raise self.error.at(str(self.path), fault, file=self.path, line=line)

    def refuse_text(self, reason: "NotYamlError") -> NoReturn:
        """Raise the error for invalid YAML."""
        fault = KeyViolation("", "The text", f"YAML, and is not: {reason}", "Correct the line.")
        raise self.error.at(str(self.path), fault, file=self.path, line=reason.line) from None


def line_of(node: yaml.Node) -> int:
    """The line on which a node starts, counted from 1."""
    return node.start_mark.line + 1


class NotYamlError(Exception):
    """A text that is not valid YAML, and the line of the mistake (counted from 1) if it is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line

    @classmethod
    def of(cls, error: yaml.MarkedYAMLError, line: int | None = None) -> "NotYamlError":
        """The error of PyYAML; ``line`` is used if PyYAML does not say where."""
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it cannot be read"
        return cls(reason, mark.line + 1 if mark is not None else line)


def compose_yaml(text: str) -> yaml.Node | None:
    """The document in a text as nodes with lines; None if it is empty. Raises :class:`NotYamlError`."""
    try:
        _check_depth(text)
        node: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise NotYamlError.of(error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise NotYamlError(error.reason, line) from None
    return node


def _check_depth(text: str) -> None:
    """Refuse deep nesting: PyYAML's composer and constructor recurse, its event parser does not."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark is not None else None
                raise NotYamlError(f"it nests more than {DEEPEST} levels deep", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def value_of(node: yaml.Node) -> Any:
    """A node as a plain Python value. Raises :class:`NotYamlError` for an invalid one, such as an impossible date."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise NotYamlError.of(error, line_of(node)) from None
    except (ValueError, LookupError, TypeError, OverflowError):  # of Python, where a text does not match its tag
        kind = str(node.tag).rpartition(":")[2]
        raise NotYamlError(f"{shown(node.value)} is not a valid {kind}", line_of(node)) from None
    finally:
        loader.dispose()
