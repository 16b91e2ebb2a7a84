"""Generator of ``docs/limits.md``, the list of unsupported features, from the error messages in the source.

``python -m lathe.scheduler.inspect.limits`` writes the page.

Every error states its kind where it is raised, so the page lists the messages of all errors of kind ``limit``, and the
reasons in ``frontend/onnx`` why layers of a model run on the host CPU.
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
from lathe.scheduler.isel.match_failures import PartialGroupMismatch, RuleMismatch, TemporariesMismatch

PACKAGE = Path(__file__).parents[1]
MODELS = Path(unsupported.__file__).parent
KIND_OF_CLASS: Mapping[type[Exception], RefusalKind] = {
    LegalityError: "legality",
    PaddingError: "legality",
    ValidationError: "legality",
    PartialGroupMismatch: "machine",
}
"""The kind of errors whose class determines it, also for derived classes."""

_INTRODUCTION = """\
# Limits

`python -m lathe.scheduler.inspect.limits` generates this page from the error messages in `scheduler/`; a test compares
the two. Edit the messages, not this page.

Every `LatheError` has a `kind` that says why something is refused:

| kind | reason | errors |
|---|---|---|
| `argument` | an argument has the wrong type or value, or names something that does not exist | {argument} |
| `legality` | the dependences or the meaning of the program forbid it | {legality} |
| `machine` | the machine has no instruction, memory or unit for it | {machine} |
| `limit` | it is legal and the machine can do it, but Lathe does not support it | {limit} |

`errors` is the number of errors of each kind in the source of `scheduler/`. This page lists the messages of kind
`limit` by source file, with values in italics, and then the reasons why layers of a network [run on the host
CPU](#layers-of-networks). Limits without an error message are described elsewhere: the bit widths of
[machines](machines.md#parameters) and [programs](schedules.md#the-default-schedule), what a validated build
[can still miss](translation-validation.md#what-it-can-miss), what the lower bound [leaves
out](lower-bound.md#what-it-leaves-out), and features of [other systems](coming-from.md) that Lathe lacks.
"""

_NETWORKS = """
## Layers of networks

A layer runs on the host CPU for one of these reasons, even if the machine has the extensions for it; `lathe run` and
`lathe explain` print the reason with the layer. If the compiler refuses a layer, the reason is one of those above.
[Supported operators](onnx.md#supported-operators) lists the operators.

"""


@dataclass(frozen=True)
class Site:
    """A call in the source that constructs an error. ``kind``: as written there; "" if none is stated."""

    path: str
    line: int
    error: str
    kind: str
    message: str = field(compare=False)


def sites() -> Iterator[Site]:
    """Every construction of an error in ``scheduler/``, sorted by path and line."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from _Source(path, PACKAGE, "lathe.scheduler").sites(_refusals())


def reasons() -> Iterator[Site]:
    """Every construction in ``frontend/onnx`` of a reason to run a layer on the host CPU, sorted by path and line."""
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
    """The error classes of ``scheduler/``, by name."""
    classes: dict[str, type[Exception]] = {
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, LatheError) and each is not LatheError
    }
    return {**classes, **{each.__name__: each for each in (RuleMismatch, TemporariesMismatch, PartialGroupMismatch)}}


class _Source:
    """A source file of ``package``, whose folder is ``root``."""

    def __init__(self, path: Path, root: Path, package: str) -> None:
        self.path = path.relative_to(root).with_suffix("").as_posix()
        self.package = package
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]

    def sites(self, refusals: Mapping[str, type[Exception]]) -> Iterator[Site]:
        """The constructions of one of the errors, or of a class of this file that is derived from one."""
        classes = {**self._derived(refusals), **refusals}
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
            assert isinstance(call.func, ast.Name)
            error = classes.get(call.func.id)
            if error is not None:
                kinds = [each.value for each in call.keywords if each.arg == "kind"]
                given = next((kind for known, kind in KIND_OF_CLASS.items() if issubclass(error, known)), "")
                stated = kinds[0] if kinds else None
                kind = stated.value if isinstance(stated, ast.Constant) else ast.unparse(stated) if stated else given
                message = self._text(call.args[0], call, set()) if call.args else ""
                yield Site(self.path, call.lineno, call.func.id, str(kind), message)

    def _derived(self, refusals: Mapping[str, type[Exception]]) -> dict[str, type[Exception]]:
        """Classes of this file that are derived from one of the errors, by name, with their base."""
        return {
            node.name: refusals[base.id]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name) and base.id in refusals
        }

    def _text(self, node: ast.expr, at: ast.expr, seen: set[str]) -> str:
        """The text of a message, with values in italics, unless a variable or call stands for a text in this file."""
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
            case ast.Call(func=ast.Name(id=name)) if name not in seen and (text := self._returned(name)) is not None:
                return self._text(text, text, {*seen, name})
        return f"*{_word(node)}*"

    def _value(self, name: str, at: ast.expr) -> ast.expr | int | None:
        """The only text that the function assigns to a variable, or an integer constant of the module, or None."""
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
        """The text that a function of this file returns, if it has one return statement with an f-string; or None."""
        for function in self.functions:
            if function.name == name:
                returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
                return returned[0] if len(returned) == 1 and isinstance(returned[0], ast.JoinedStr) else None
        return None


def _word(node: ast.expr) -> str:
    """A placeholder for an interpolated value: the name of the variable or attribute that it comes from."""
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
    """Write ``docs/limits.md`` in a checkout."""
    write_text(PACKAGE.resolve().parent / "docs" / "limits.md", page())


if __name__ == "__main__":
    main()
