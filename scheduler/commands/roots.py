"""The place outside all loops, where commands take an axis."""


def is_root(axis: object) -> bool:
    """Whether an argument is the word for the whole of a stage, outside its loops."""
    return isinstance(axis, str) and axis == "root"
