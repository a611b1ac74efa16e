"""Reads the navigation of mkdocs.yml, which is simple enough to need no YAML library."""

import re
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "mkdocs.yml"


def nav_pages() -> list[tuple[str, str]]:
    """Return the section and the path of each page in the order of the navigation."""
    nav = CONFIG.read_text("utf-8").partition("\nnav:\n")[2]
    section, found = "", list[tuple[str, str]]()
    for line in nav.splitlines():
        if heading := re.fullmatch(r"  - (.+):", line):
            section = heading[1]
        elif page := re.search(r"([\w/-]+\.md)$", line):
            found.append((section or "Start", page[1]))
    return found
