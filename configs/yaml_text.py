"""Text that is to be YAML, and why it is none."""

from typing import Any

import yaml

from lathe.configs.errors import shown

DEEPEST = 100
"""Levels of lists and keys: more than any file of Lathe's has, and fewer than Python's stack takes."""


class NotYamlError(Exception):
    """What is wrong with a text, and on which line (counted from 1) if that is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def composed(text: str) -> yaml.Node | None:
    """The document in a text as nodes that know their lines; None if it is empty. Raises :class:`NotYamlError`."""
    try:
        _check_depth(text)
        node: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it cannot be read"
        raise NotYamlError(reason, mark.line + 1 if mark is not None else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise NotYamlError(error.reason, line) from None
    return node


def _check_depth(text: str) -> None:
    """Everything else that reads nodes recurses, the parser of events does not."""
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
    """A node as plain Python. Raises :class:`NotYamlError` for what is none, such as a day of no month."""
    line = node.start_mark.line + 1 if node.start_mark is not None else None
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it cannot be read"
        raise NotYamlError(reason, mark.line + 1 if mark is not None else line) from None
    except (ValueError, KeyError, TypeError, OverflowError):  # of Python, where a text is not what its tag says
        kind = str(node.tag).rpartition(":")[2]
        raise NotYamlError(f"{shown(node.value)} is no {kind}", line) from None
    finally:
        loader.dispose()
