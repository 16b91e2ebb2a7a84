"""Why nodes are no layer."""


class NotOffloadable(Exception):  # noqa: N818 - a reason, which never leaves this room
    """Why nodes are no layer."""
