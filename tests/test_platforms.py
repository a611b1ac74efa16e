"""`docs/platforms.md` lists every file that depends on the platform."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ASKS = re.compile(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\(")


def test_the_page_lists_every_file_that_asks_for_the_platform() -> None:
    source = ROOT / "src" / "accord"
    asking = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if ASKS.search(path.read_text("utf-8"))
    }
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", (ROOT / "docs" / "platforms.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(asking)
