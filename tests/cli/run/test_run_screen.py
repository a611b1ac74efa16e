"""`accord run` on a real screen, in tmux: what a person sees when they are asked, and after Ctrl-C."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.cli.run.running import Place, odd
from tests.cli.run.screen import Screen, on_screen


@contextmanager
def run(place: Place, *words: str) -> Generator[Screen]:
    command = [sys.executable, "-m", "accord.cli", "run", "--cwd", str(place.cwd), "go", *words]
    env = place.env(TERM="xterm", LANG="C.UTF-8", SHELL="/bin/sh")
    with on_screen(place.home.parent, command, env) as screen:
        yield screen


def test_a_question_is_the_last_thing_on_the_screen_until_it_is_answered(place: Place) -> None:
    calls = [{"kind": "edit", "title": "first"}, {"kind": "edit", "title": "second"}]
    with run(place, *odd("permissions", *map(json.dumps, calls))) as screen:
        screen.expect("Choose 1-3: ")
        assert screen.lines[-5:] == [
            "odd asks: first [edit]",
            "  1  Yes, please",
            "  2  Always",
            "  3  No, thanks",
            "Choose 1-3:",
        ]
        screen.press("2", "Enter")
        screen.expect("[exit 0]")
        shown = "\n".join(screen.lines)
        assert "odd asks: second" not in shown, "always: not asked again in this session"
        assert '"optionId": "ever"' in shown
        assert '"optionId": "yes"' in shown


def test_ctrl_c_leaves_a_tidy_screen(place: Place) -> None:
    with run(place, *odd("busy")) as screen:
        screen.expect("working")
        screen.press("C-c")
        screen.expect("[exit 130]")
        lines = screen.lines
        assert lines[0] == "working"
        assert any("stopping; Ctrl-C again ends the agent" in line for line in lines)
        assert "Traceback" not in "\n".join(lines)


def test_a_form_is_filled_in_line_by_line(place: Place) -> None:
    form = {
        "mode": "form",
        "message": "How big?",
        "requestedSchema": {
            "type": "object",
            "properties": {"size": {"type": "integer", "title": "Size", "minimum": 1}},
            "required": ["size"],
        },
    }
    with run(place, *odd("elicits", json.dumps(form))) as screen:
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
