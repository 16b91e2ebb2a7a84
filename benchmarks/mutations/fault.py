"""Faults for mutation testing: a replacement of a few characters of one function's source."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Fault:
    """``after`` replaces ``before``, which occurs exactly once in ``module``, within functions.

    ``harmless``: why no test can catch the fault, if it turns out that none can.
    """

    name: str
    module: str
    before: str
    after: str
    harmless: str = ""

    @property
    def unit(self) -> str:
        """The module with the fault, without the package."""
        return self.module.removeprefix("lathe.")


def faults_of(package: str) -> Callable[..., Fault]:
    """A constructor of faults whose modules are named without their package."""

    def fault(name: str, module: str, before: str, after: str, harmless: str = "") -> Fault:
        return Fault(name, f"{package}.{module}", before, after, harmless)

    return fault


@dataclass(frozen=True)
class Kind:
    """Faults of one kind. ``nets``: the names of the checks that may catch them.

    ``verdicts`` runs the checks on the planted fault (without one, none may catch anything): the nets that catch it,
    each with the case on which it does.
    """

    name: str
    faults: Sequence[Fault]
    nets: Sequence[str]
    verdicts: Callable[[], Mapping[str, str]]


class PlantError(AssertionError):
    """A fault that does not match the source."""


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """Plant a fault in the context.

    Functions get the code of the changed source, wherever they are imported, and their own code back at the end.
    Existing machines and caches are unchanged.
    """
    module = import_module(fault.module)
    changed = changed_code(module, fault)
    functions = functions_of(module)
    places = [(function, code) for name, code in changed.items() for function in functions.get(name, ())]
    if len({name for name in changed if name in functions}) < len(changed):
        missing = sorted(changed.keys() - functions.keys())
        raise PlantError(f"fault {fault.name!r} changes {missing} of {fault.module}, which cannot be reached")
    kept = [(function, function.__code__) for function, _ in places]
    try:
        for function, code in places:
            function.__code__ = code
        yield
    finally:
        for function, code in kept:
            function.__code__ = code


def changed_code(module: ModuleType, fault: Fault) -> dict[str, CodeType]:
    """The functions that a fault changes, by qualified name."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    found = source.count(fault.before)
    if found != 1:
        raise PlantError(f"fault {fault.name!r} must have its text once in {fault.module}, not {found} times")
    if fault.before.count("\n") != fault.after.count("\n"):
        raise PlantError(f"fault {fault.name!r} must keep the number of lines, lest all code behind it changes")
    old = codes_of(compile(source, module.__file__, "exec"))
    new = codes_of(compile(source.replace(fault.before, fault.after), module.__file__, "exec"))
    changed = {name: code for name, code in new.items() if old.get(name) != code}
    if not changed:
        raise PlantError(f"fault {fault.name!r} changes no function of {fault.module}")
    return changed


def codes_of(code: CodeType) -> dict[str, CodeType]:
    """The functions of a module's code, methods included, by qualified name; nested functions belong to the outer ones.

    The bodies of the module and of its classes are left out, since they run only once, at import.
    """
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & OPTIMISED:
                found[constant.co_qualname] = constant
            else:
                found |= codes_of(constant)
    return found


# The flag of code with local variables of its own: of functions, not of class bodies.
OPTIMISED = 1


def functions_of(module: ModuleType) -> dict[str, list[FunctionType]]:
    """The functions that a module defines, methods included, by qualified name."""
    found: dict[str, list[FunctionType]] = {}

    def look(value: Any) -> None:
        if isinstance(value, FunctionType):
            if value.__module__ == module.__name__:
                found.setdefault(value.__code__.co_qualname, []).append(value)
            look(getattr(value, "__wrapped__", None))
        elif isinstance(value, type):
            if value.__module__ == module.__name__:
                for inner in vars(value).values():
                    look(inner)
        elif isinstance(value, property):
            look(value.fget)
        elif isinstance(value, staticmethod | classmethod):
            look(value.__func__)
        elif hasattr(value, "__wrapped__") or hasattr(value, "func"):
            look(getattr(value, "__wrapped__", None) or value.func)

    for value in vars(module).values():
        look(value)
    return found
