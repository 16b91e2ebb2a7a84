"""The page of what Lathe cannot do, ``docs/limits.md``, written from the source.

``python -m lathe.scheduler.inspect.limits`` writes it.

A refusal states its kind where it is made, so the page is the list of those that state ``limit``, with their messages.
Why layers of a model stay with the host stands where they are looked for, in ``frontend/onnx``.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

from lathe.configs.atomic import write_text
from lathe.configs.errors import LatheError, RefusalKind
from lathe.frontend.onnx import unsupported
from lathe.scheduler import errors
from lathe.scheduler.errors import LegalityError, PaddingError, ValidationError
from lathe.scheduler.isel.match_failures import PartialGroupMismatch, RuleMismatch, UopCapacityMismatch

ROOM = Path(__file__).parents[1]
MODELS = Path(unsupported.__file__).parent
OF_ONE_KIND: Mapping[type[Exception], RefusalKind] = {
    LegalityError: "legality",
    PaddingError: "legality",
    ValidationError: "legality",
    PartialGroupMismatch: "machine",
}
"""Errors whose kind their class says, with those derived from them."""

_INTRODUCTION = """\
# Limits

Written by `python -m lathe.scheduler.inspect.limits` from the refusals in `scheduler/`; a test
compares this page with them. Edit those, not this page.

Every `LatheError` has a `kind`, which says why something is refused:

| kind | why | places |
|---|---|---|
| `argument` | what is given is not what it must be, or asks for what is not there | {argument} |
| `legality` | the order of the schedule, or what the program means, forbids it | {legality} |
| `machine` | no instruction, memory or unit of the machine does it | {machine} |
| `limit` | it makes sense, and Lathe cannot do it | {limit} |

`places` are those in the source of schedules and builds that refuse something. These are the limits, by the file of
`scheduler/` that they are in; words in italics stand for what is at hand. Behind them stands why layers of a network
[stay with the host](#layers-of-networks). What no list of refusals can have is elsewhere: widths of values that
[machines](machines.md#parameters) and [programs](schedules.md#what-needs-no-schedule) have, what a validated build
[can still miss](translation-validation.md#what-it-can-miss), what the bound [leaves
out](lower-bound.md#what-it-leaves-out), and what [other systems](coming-from.md) have and Lathe has not.
"""

_NETWORKS = """
## Layers of networks

A layer that its machine has the extensions for stays with the host, all the same, for these reasons, which `lathe run`
and `lathe explain` show beside it; where the compiler refuses a layer, it is one of those above.
[What runs where](networks.md#what-runs-where) has the operators.

"""


@dataclass(frozen=True)
class Site:
    """A place in the source that makes a refusal. ``kind``: as it is written there; "" where nothing is stated."""

    path: str
    line: int
    error: str
    kind: str
    message: str = field(compare=False)


def sites() -> Iterator[Site]:
    """Every place in this room that makes a refusal, in the order of paths and lines."""
    for path in sorted(ROOM.rglob("*.py")):
        yield from _Source(path, ROOM, "lathe.scheduler").sites(_refusals())


def reasons() -> Iterator[Site]:
    """Every place in ``frontend/onnx`` that leaves a layer to the host, in the order of paths and lines."""
    for path in sorted(MODELS.rglob("*.py")):
        yield from _Source(path, MODELS, "lathe.frontend.onnx").sites(
            {unsupported.NotOffloadable.__name__: unsupported.NotOffloadable}
        )


def page() -> str:
    """The text of ``docs/limits.md``."""
    known = list(sites())
    counts = Counter(site.kind for site in known)
    text = [_INTRODUCTION.format(**{kind: counts[kind] for kind in get_args(RefusalKind)})]
    by_path: dict[str, dict[str, None]] = {}
    for site in known:
        if site.kind == "limit":
            by_path.setdefault(site.path, {})[site.message] = None
    for path, messages in by_path.items():
        text.append(f"\n## {path}\n\n")
        text += [f"- {message}\n" for message in messages]
    text.append(_NETWORKS)
    text += [f"- {message}\n" for message in sorted({site.message for site in reasons()})]
    return "".join(text)


@cache
def _refusals() -> dict[str, type[Exception]]:
    """The classes of refusals of this room, by name."""
    found: dict[str, type[Exception]] = {
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, LatheError) and each is not LatheError
    }
    return {**found, **{each.__name__: each for each in (RuleMismatch, UopCapacityMismatch, PartialGroupMismatch)}}


class _Source:
    """One file of a room, whose folder is ``root`` and which is imported as ``package``."""

    def __init__(self, path: Path, root: Path, package: str) -> None:
        self.path = path.relative_to(root).with_suffix("").as_posix()
        self.package = package
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]

    def sites(self, refusals: Mapping[str, type[Exception]]) -> Iterator[Site]:
        """The places that make one of the refusals, or one of a class of this file that is derived from those."""
        classes = {**self._derived(refusals), **refusals}
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
            assert isinstance(call.func, ast.Name)
            error = classes.get(call.func.id)
            if error is not None:
                kinds = [each.value for each in call.keywords if each.arg == "kind"]
                given = next((kind for known, kind in OF_ONE_KIND.items() if issubclass(error, known)), "")
                stated = kinds[0] if kinds else None
                kind = stated.value if isinstance(stated, ast.Constant) else ast.unparse(stated) if stated else given
                message = self._text(call.args[0], call, set()) if call.args else ""
                yield Site(self.path, call.lineno, call.func.id, str(kind), message)

    def _derived(self, refusals: Mapping[str, type[Exception]]) -> dict[str, type[Exception]]:
        """Classes of this file that are derived from refusals."""
        return {
            node.name: refusals[base.id]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name) and base.id in refusals
        }

    def _text(self, node: ast.expr, at: ast.expr, seen: set[str]) -> str:
        """A message, with what is at hand in italics: what a variable of the function is, if it is a text."""
        match node:
            case ast.Constant(value=value):
                return str(value).replace("*", r"\*").replace("<", r"\<")
            case ast.JoinedStr(values=values):
                return "".join(self._text(value, at, seen) for value in values).replace("**", "* *")
            case ast.FormattedValue(value=value):
                return self._text(value, at, seen)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._text(left, at, seen) + self._text(right, at, seen)
            case ast.Name(id=name) if name not in seen:
                value = self._value(name, at)
                if isinstance(value, ast.expr):
                    return self._text(value, at, {*seen, name})
                return f"*{_word(node)}*" if value is None else str(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if isinstance(
                value := self._value(name, at), int
            ):
                return str(-value)
            case ast.Call(func=ast.Name(id=name)) if name not in seen and (made := self._returned(name)) is not None:
                return self._text(made, made, {*seen, name})
        return f"*{_word(node)}*"

    def _value(self, name: str, at: ast.expr) -> ast.expr | int | None:
        """The one text that a function assigns to a variable, or the number that a module has; None for neither."""
        around = [each for each in self.functions if each.lineno <= at.lineno <= (each.end_lineno or 0)]
        for function in reversed(around):
            assigned = [
                node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
            ]
            if assigned:
                text = isinstance(assigned[0], ast.JoinedStr) or (
                    isinstance(assigned[0], ast.Constant) and isinstance(assigned[0].value, str)
                )
                return assigned[0] if len(assigned) == 1 and text else None
        value = vars(import_module(f"{self.package}.{self.path.replace('/', '.')}")).get(name)
        return value if isinstance(value, int) else None

    def _returned(self, name: str) -> ast.expr | None:
        """The text that a function of this file returns, if that is all that it does."""
        for function in self.functions:
            if function.name == name:
                returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
                return returned[0] if len(returned) == 1 and isinstance(returned[0], ast.JoinedStr) else None
        return None


def _word(node: ast.expr) -> str:
    """A word for a value: the name of what it is taken from."""
    match node:
        case ast.Name(id=name):
            return name.strip("_").replace("_", " ")
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return attr.strip("_").replace("_", " ")
        case ast.Attribute(value=value, attr="name" | "__name__" | "tensor" | "computation" | "state" | "stage"):
            return _word(value)
        case ast.Attribute(attr=attr):
            return attr.replace("_", " ")
        case (
            ast.Call(func=ast.Attribute(attr="join"), args=[inner]) | ast.Call(func=ast.Name(id="map"), args=[_, inner])
        ):
            return _word(inner)
        case ast.Call(args=[inner, *_]) | ast.Starred(value=inner) | ast.Subscript(value=inner):
            return _word(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _word(inner)
        case ast.GeneratorExp(generators=[only, *_]) | ast.ListComp(generators=[only, *_]):
            return _word(only.iter)
        case ast.IfExp(body=inner):
            return _word(inner)
    return "..."


def main() -> None:
    """Write the page into the documentation of a checkout."""
    write_text(ROOM.resolve().parent / "docs" / "limits.md", page())


if __name__ == "__main__":
    main()
