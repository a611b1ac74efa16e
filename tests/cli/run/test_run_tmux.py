"""`accord run` in tmux: questions, forms and Ctrl-C on a real screen."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.cli.run.tmux_window import TmuxWindow, in_tmux


@contextmanager
def run(harness: RunHarness, *words: str) -> Generator[TmuxWindow]:
    command = [sys.executable, "-m", "accord.cli", "run", "--cwd", str(harness.cwd), "go", *words]
    env = harness.env(TERM="xterm", LANG="C.UTF-8", SHELL="/bin/sh")
    with in_tmux(harness.home.parent, command, env) as screen:
        yield screen


def test_a_question_stays_at_the_end_of_the_screen(harness: RunHarness) -> None:
    calls = [{"kind": "edit", "title": "first"}, {"kind": "edit", "title": "second"}]
    with run(harness, *odd_agent("permissions", *map(json.dumps, calls))) as screen:
        screen.expect("Choose 1-3: ")
        assert screen.lines[-6:] == [
            "odd asks: first [edit]",
            '  ("always" also allows edit here, until the session ends)',
            "  1  Yes, please",
            "  2  Always (allow always)",
            "  3  No, thanks",
            "Choose 1-3:",
        ]
        screen.press("2", "Enter")
        screen.expect("[exit 0]")
        shown = "\n".join(screen.lines)
        assert "odd asks: second" not in shown, "an always answer must not be asked for again"
        assert '"optionId": "ever"' in shown
        assert '"optionId": "yes"' in shown


def test_ctrl_c_leaves_a_clean_screen(harness: RunHarness) -> None:
    with run(harness, *odd_agent("busy")) as screen:
        screen.expect("working")
        screen.press("C-c")
        screen.expect("[exit 130]")
        lines = screen.lines
        assert lines[0] == "working"
        assert any("stopping; press Ctrl-C again to end the agent" in line for line in lines)
        assert "Traceback" not in "\n".join(lines)


def test_a_form_is_filled_in_line_by_line(harness: RunHarness) -> None:
    form = {
        "mode": "form",
        "message": "How big?",
        "requestedSchema": {
            "type": "object",
            "properties": {"size": {"type": "integer", "title": "Size", "minimum": 1}},
            "required": ["size"],
        },
    }
    with run(harness, *odd_agent("elicits", json.dumps(form))) as screen:
        screen.expect("Size (a number): ")
        screen.press("0", "Enter")
        screen.expect("Size (a number): ")
        screen.press("7", "Enter")
        screen.expect("Send this? [y/N] ")
        assert screen.lines[-6:] == [
            "odd asks: How big?",
            "Size (a number): 0",
            "  Size must be at least 1",
            "Size (a number): 7",
            "  Size: 7",
            "Send this? [y/N]",
        ]
        screen.press("y", "Enter")
        screen.expect("[exit 0]")
