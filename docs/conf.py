"""The documentation site: ``sphinx-build -W --keep-going -n docs SITE`` (extra ``docs``). A warning is an error.

Nothing of the site comes from the network when it is read: theme, fonts and scripts are files of its own.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from gen_file_index import write_page
from sphinx.application import Sphinx

import lathe

project = "Lathe"
author = "the authors of Lathe"
copyright = author
release = version = lathe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "source_pages"]
exclude_patterns = ["_build"]
root_doc = "index"

html_theme = "furo"
html_title = f"Lathe {release}"
html_copy_source = False

# Headings down to the third level have anchors as on the page of a repository, and links to them are checked.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

highlight_language = "pycon"  # blocks that say nothing else are sessions
trim_doctest_flags = True

autodoc_member_order = "bysource"
# Signatures are as they stand in the source: classes that are not public are named, not explained.
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True

nitpicky = True
# Types of other libraries and those within Lathe that are not public have no page.
nitpick_ignore_regex = [("py:.*", r"(?!lathe\.\w+$).*")]


def setup(app: Sphinx) -> None:
    """Called by Sphinx: the page of source files is generated before pages are read."""
    app.connect("builder-inited", lambda _: write_page())
