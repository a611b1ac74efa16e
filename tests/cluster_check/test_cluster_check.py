"""The check of a cluster notices bugs in the nodes that run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster_check.checked_node import BUGS

ROOT = Path(__file__).parents[2]
NOTICED = {
    "no-fence": (("epochs never go back", "one writer in an epoch"), ("node paused", "node silent")),
    "answer-before-commit": (("the agent's answer is in the log",), ("node cut off", "node silent")),
    "feed-without-gap-rule": (("every record, in order",), ("agent killed",)),
}
"""By bug: the promises that it breaks, and the damage that shows it."""


@pytest.mark.timeout(1200)
@pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="each takes about a minute; set LONG_TESTS=1")
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_nodes_is_noticed(bug: str) -> None:
    promises, damages = NOTICED[bug]
    only = [word for damage in damages for word in ("--only", damage)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster_check", "--minutes", "0.7", "--bug", bug, *only],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    assert any(f"VIOLATION {promise}" in done.stdout for promise in promises), done.stdout[-4000:]
