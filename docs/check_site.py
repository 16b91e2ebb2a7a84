"""Whether a built site holds together, and needs no network: ``python docs/check_site.py SITE``.

Every link within the site leads to a file, and to a place in it that is there. Scripts, styles, fonts and pictures are
the site's own. Links to the outside are looked at for their form only.
"""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
    "embed": "src",
    "image": "href",
}
"""Elements that a browser loads something for, and by which attribute."""
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
OUTSIDE = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])((?:https?:)?//[^'")\s]+)""")


class Page(HTMLParser):
    """The places of a page that can be linked to, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names, links to or loads."""
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and LOADING_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        elif tag in LOADED and given.get(LOADED[tag]):
            self.loads.append(given[LOADED[tag]])
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])


def is_outside(address: str) -> bool:
    """Whether an address leads out of the site."""
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def is_well_formed(address: str) -> bool:
    """Whether an address of the outside is one that a browser can open."""
    parts = urlsplit(address)
    if parts.scheme == "mailto":
        return "@" in parts.path
    return parts.scheme in ("https", "http") and "." in parts.netloc and " " not in address


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a line for each mistake."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    files = {path for path in site.rglob("*") if path.is_file()}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.links + page.loads:
            if is_outside(address):
                if address in page.loads and not address.startswith("data:"):
                    found.append(f"{name}: {address} is loaded from the network")
                elif address in page.links and not is_well_formed(address):
                    found.append(f"{name}: {address} is no address")
                continue
            parts = urlsplit(address)
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if target not in files:
                found.append(f"{name}: {address} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{name}: {address} has no such place")
    for path in [*pages, *sorted(site.rglob("*.css"))]:
        for address in OUTSIDE.findall(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(site)}: {address} is loaded from the network")
    return found


if __name__ == "__main__":
    mistakes = problems(Path(sys.argv[1]).resolve())
    print("\n".join(mistakes) or "Every link leads somewhere, and nothing is loaded from the network.")
    sys.exit(bool(mistakes))
