"""The HTML representation of values in notebooks: classes declare it here, ``lathe/reports/notebooks`` renders it.

So lower packages do not depend on tables and figures, and the renderers may use all packages that a value consists of.
"""

from functools import singledispatch


@singledispatch
def html_of(_value: object) -> str | None:
    """A self-contained fragment of HTML; None for types without a renderer, which are shown as text."""
    return None


def repr_html(self: object) -> str | None:
    """The hook that Jupyter calls: a class with ``_repr_html_ = repr_html`` is shown by its renderer."""
    return html_of(self)
