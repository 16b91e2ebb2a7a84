"""Modules of the hardware with one fault put in: their own source with one expression replaced."""

from types import ModuleType


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """The module as it would be with `new` where its source has `old`, which must be there once."""
    path = module.__file__
    assert path is not None, f"{module.__name__} has no source"
    with open(path) as file:
        source = file.read()
    assert source.count(old) == 1, f"{module.__name__} has {old!r} {source.count(old)} times, which must be once"
    changed = ModuleType(module.__name__)
    changed.__file__ = path
    exec(compile(source.replace(old, new), f"{path} with {new!r}", "exec"), changed.__dict__)
    return changed
