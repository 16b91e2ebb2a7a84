"""Mutants of hardware modules: their source with one expression replaced."""

from types import ModuleType


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """The module with `old`, which its source must contain once, replaced by `new`."""
    path = module.__file__
    assert path is not None, f"{module.__name__} has no source"
    with open(path) as file:
        source = file.read()
    assert source.count(old) == 1, f"{module.__name__} has {old!r} {source.count(old)} times, not once"
    changed = ModuleType(module.__name__)
    changed.__file__ = path
    exec(compile(source.replace(old, new), f"{path} with {new!r}", "exec"), changed.__dict__)
    return changed
