"""Completes the built site: `llms.txt`, full names in the search, no empty sitemap."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from tools.site_nav import nav_pages

DOCS = Path(__file__).resolve().parent.parent / "docs"


def llms_txt() -> str:
    """Return the title, the first sentence and the address of each page, by sections of the navigation."""
    lines = ["# Accord", "", "> The Agent Client Protocol for Python, for agents and clients."]
    section = ""
    for title, path in nav_pages():
        if title != section:
            section = title
            lines += ["", f"## {section}", ""]
        text = (DOCS / path).read_text("utf-8")
        name = text.partition("\n")[0].removeprefix("# ")
        words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(text.split("\n\n")[1].split()))
        first = re.split(r"(?<=[.:])\s", words)[0].rstrip(":")
        lines.append(f"- [{name}]({path.removesuffix('.md')}.html): {first}")
    return "\n".join(lines) + "\n"


def name_fully(index: dict[str, Any]) -> dict[str, Any]:
    """Show the names of the API by their full name, so that `key` of a class is not the best page on keys."""
    for item in index["items"]:
        name = item["location"].partition("#")[2]
        if name.startswith("accord."):
            item["title"] = name
            item["path"] = item["path"][:2]
    return index


def complete(site: Path) -> None:
    """Add to the site what the builder does not write."""
    (site / "llms.txt").write_text(llms_txt(), "utf-8")
    index = json.dumps(name_fully(json.loads((site / "search.json").read_bytes())), separators=(",", ":"))
    (site / "search.json").write_text(index, "utf-8")
    (site / "search.js").write_text(f"var __index = {index};", "utf-8")  # for pages opened as files
    sitemap = site / "sitemap.xml"
    if "<loc>" not in sitemap.read_text("utf-8"):
        sitemap.unlink()  # there is no `site_url` in mkdocs.yml


if __name__ == "__main__":
    complete(Path(sys.argv[1]))
