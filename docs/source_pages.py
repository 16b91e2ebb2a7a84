"""An extension of the site: what the text names leads there, a file of the repository to a page with its source.

A path in code quotes, such as `scheduler/loop_ir/compute_locations.py`, is looked for from the root; on its own,
such as `compute_locations.py`, in the folder that the page last named in bold. A page of the site in code quotes,
and "decision 107", lead to it. A path into a folder of the repository where there is no such file is a warning;
decisions may tell of the past.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parent.parent
FOLDERS = ("configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe", "tests", "benchmarks", "examples", "docs")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".cpp": "cpp", ".h": "cpp", ".toml": "toml", ".md": "markdown"}
PATH = re.compile(r"(?:python )?([\w.-]+(?:/[\w.-]+)*\.(?:py|yaml|cpp|h|md|toml))\b(?: --\S+)*")
DECISION = re.compile(r"decisions? (\d{3})\b")
SHOWN = "source/"
"""Where the pages with sources are in the site."""

FORMATTER = HtmlFormatter(linenos=False, lineanchors="L", anchorlinenos=False)
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} - Lathe</title><link rel="stylesheet" href="{root}_static/pygments.css">
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 1rem auto; max-width: 75rem; padding: 0 1rem; font-family: sans-serif; }}
.highlight {{ overflow-x: auto; padding: 0.5rem 1rem; }}
</style></head>
<body><p><a href="{root}index.html">Lathe</a> / <code>{name}</code></p>
{text}</body></html>
"""
"""A page with a source; its colours are the theme's, for light and for dark."""

logger = logging.getLogger(__name__)


def found_file(name: str, folder: Path) -> Path | None:
    """The file that a path in code quotes means, from the root, or None."""
    candidates = (Path(name), folder / name, Path("scheduler") / name)
    return next((each for each in candidates if (ROOT / each).is_file()), None)


def literals_in_folders(doctree: nodes.document) -> Iterator[tuple[nodes.literal, Path]]:
    """The code quotes of a page, each with the folder named last in bold before it."""
    folder = Path("docs")
    for literal in list(doctree.findall(nodes.literal)):
        text = literal.astext()
        if isinstance(literal.parent, nodes.strong) and (ROOT / text).is_dir():
            folder = Path(text)
        elif not any(isinstance(above, nodes.reference) for above in ancestors(literal)):
            yield literal, folder


def ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    """What a node is inside of, inside out."""
    while node.parent is not None:
        node = node.parent
        yield node


def target_of(app: Sphinx, path: Path) -> str:
    """The name of the page that a file has in the site, which has one from now on."""
    page = path.relative_to("docs").with_suffix("").as_posix() if path.parts[0] == "docs" else ""
    if page in app.env.found_docs:
        return page
    if path == Path("CHANGELOG.md"):
        return "changelog"
    app.source_pages.add(path)  # type: ignore[attr-defined]
    return f"{SHOWN}{path.as_posix()}"


def link(app: Sphinx, docname: str, page: str, content: nodes.Node) -> nodes.reference:
    """A reference to a page of the site."""
    reference = nodes.reference("", "", internal=True, refuri=app.builder.get_relative_uri(docname, page))
    reference += content
    return reference


def link_files(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Files in code quotes become links."""
    for literal, folder in literals_in_folders(doctree):
        match = PATH.fullmatch(" ".join(literal.astext().split()))
        if match is None:
            continue
        path = found_file(match[1], folder)
        if path is not None:
            literal.replace_self(link(app, docname, target_of(app, path), literal.deepcopy()))
        elif (
            match[1].split("/")[0] in FOLDERS
            and "/" in match[1]
            and not docname.startswith(("decisions/", "changelog"))
        ):
            logger.warning("file %s must be one of the repository", match[1], location=literal, type="source_pages")


def link_decisions(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Decisions that are named by their numbers become links."""
    pages = {name.split("/")[1][:3]: name for name in app.env.found_docs if re.match(r"decisions/\d{3}-", name)}
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.reference | nodes.title):
            continue
        made: list[nodes.Node] = []
        end = 0
        for match in DECISION.finditer(text):
            if match[1] in pages and pages[match[1]] != docname:
                made += [
                    nodes.Text(text[end : match.start()]),
                    link(app, docname, pages[match[1]], nodes.Text(match[0])),
                ]
                end = match.end()
        if made:
            text.parent.replace(text, [*made, nodes.Text(text[end:])])


def link_what_is_named(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Both, on pages that are shown in a browser."""
    if app.builder.format == "html":
        link_files(app, doctree, docname)
        link_decisions(app, doctree, docname)


def write_sources(app: Sphinx, error: Exception | None) -> None:
    """A page for each file that is linked to. They have no navigation: hundreds of them are made in seconds so."""
    if error is not None or app.builder.format != "html":
        return
    for path in app.source_pages:  # type: ignore[attr-defined]
        text = (ROOT / path).read_text(encoding="utf-8")
        lexer = get_lexer_by_name(LANGUAGES.get(path.suffix, "text"))
        written = app.outdir / f"{SHOWN}{path.as_posix()}.html"
        written.parent.mkdir(parents=True, exist_ok=True)
        values = {
            "name": escape(path.as_posix()),
            "root": "../" * len(path.parts),
            "text": highlight(text, lexer, FORMATTER),
        }
        written.write_text(PAGE.format(**values), encoding="utf-8")


def begin(app: Sphinx) -> None:
    """No file is linked to yet."""
    app.source_pages = set()  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", begin)
    app.connect("doctree-resolved", link_what_is_named)
    app.connect("build-finished", write_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
