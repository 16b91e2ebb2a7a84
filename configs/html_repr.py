"""What a notebook shows of a value: its class says here that there is more than text, ``lathe/reports/notebooks`` what.

So rooms below need not know of tables and pictures, and those above may look at all that a value is made of.
"""

from functools import singledispatch


@singledispatch
def html_of(_value: object) -> str | None:
    """A fragment of HTML that stands by itself; None for what nobody has a view of, so that its text is shown."""
    return None


def repr_html(self: object) -> str | None:
    """What Jupyter asks values in cells for: a class with ``_repr_html_ = repr_html`` is shown by its view."""
    return html_of(self)
