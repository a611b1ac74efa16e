"""Writes llms.txt into the built site: the title, the first sentence and the address of each page."""

import re
import sys
from pathlib import Path

from tools.site_nav import nav_pages

DOCS = Path(__file__).resolve().parent.parent / "docs"


def llms_txt() -> str:
    """Return the text: one section per section of the navigation."""
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


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(llms_txt(), "utf-8")
