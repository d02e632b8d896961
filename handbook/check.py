"""Check a built site: `python -m handbook.check FOLDER`. Links lead somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
POINTERS = {"canonical", "alternate", "next", "prev", "edit", "me", "license"}  # of `link`: nothing is loaded


class Page(HTMLParser):
    """Collects the links of a page, what it loads, and the names that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        has = dict(attributes)
        self.anchors |= {value for name in ("id", "name") if (value := has.get(name))}
        if tag == "a" and (address := has.get("href")):
            self.links.append(address)
        elif tag in LOADED and (address := has.get(LOADED[tag])) and has.get("rel") not in POINTERS:
            self.loaded.append(address)


def faults(site: Path) -> list[str]:
    """Return what is wrong with a site, a line for each."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {address}" for address in page.loaded if urlsplit(address).netloc]
        for address in [*page.links, *(each for each in page.loaded if not urlsplit(each).netloc)]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name} links to {address}, which is not there")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors | {"__top"}
            ):
                found.append(f"{name} links to {address}, which has no such part")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    size = sum(path.stat().st_size for path in Path(sys.argv[1]).rglob("*") if path.is_file())
    print(f"{size / 1e6:.1f} MB in {sys.argv[1]}, {len(wrong)} faults")
    sys.exit(bool(wrong))
