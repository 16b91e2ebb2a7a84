"""The base of every error that a user of Lathe can cause."""


class LatheError(Exception):
    """A mistake in what the user gave, told in one paragraph: what is wrong, what is allowed, what to do.

    Each room derives its own errors from this class; all of them are importable from ``lathe``. The command line
    prints the message without a traceback and exits with status 2.
    """
