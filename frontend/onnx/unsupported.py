"""The exception that leaves nodes of a model to the host CPU."""


class NotOffloadable(Exception):  # noqa: N818 - always caught in this package
    """Nodes do not match any NPU layer and run on the host CPU; the message is the reason."""
