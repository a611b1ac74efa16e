"""`accord chat`: the terminal client for any agent. Without a terminal, prompts are read line by line and answers printed plainly."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from accord.cli.chatting.arguments import Arguments, read_arguments

if TYPE_CHECKING:
    from accord.client.servers import Server
    from accord.client.servers.trusting import Trusting
    from accord.tui.start import Start


def main(arguments: Sequence[str]) -> int:
    """Chat until the user leaves; the result is the exit code."""
    given = read_arguments(arguments)
    if _on_a_terminal():
        from accord.extras import require

        require("tui", "accord chat")
        return chat_on_screen(given)
    from accord.cli.chatting.plain import chat_plainly

    return chat_plainly(start_of(given))


def chat_on_screen(given: Arguments) -> int:
    """The terminal client. Raises UsageError for settings that cannot be used."""
    import os

    from accord.tui.actions import ACTIONS
    from accord.tui.ground import Ground, find_ground
    from accord.tui.settings.file import read_settings
    from accord.tui.settings.table import FOLLOW

    start = start_of(given)
    settings = read_settings([action.name for action in ACTIONS])
    ground = find_ground(os.environ) if settings.theme == FOLLOW else Ground(None)
    from accord.tui.app import ChatApp

    def choose(name: str, cwd: str, trusting: "Trusting") -> "Server":
        from accord.cli.chosen import chosen_server

        return chosen_server(name, (), cwd, trust=given.trust, asking=trusting)

    app = ChatApp(start, settings=settings, dark=ground.dark, typed=ground.typed, choose=choose)
    return app.run(mouse=settings.mouse) or 0


def start_of(given: Arguments) -> "Start":
    """What the screen begins with. The agent is looked for later, when the prompt is there."""
    from accord.tui.start import Start

    def find(trusting: "Trusting") -> "Server":
        from accord.cli.chosen import chosen_server
        from accord.cli.remote import server_at

        if given.remote is not None:
            return server_at(given.remote)

        return chosen_server(given.agent, given.command, given.cwd, trust=given.trust, asking=trusting)

    return Start(
        find=find,
        cwd=given.cwd,
        remote=given.remote,
        name=_name(given),
        add_dir=given.add_dir,
        permissions=given.permissions,
        model=given.model,
        mode=given.mode,
        settings=given.settings,
        session=given.session,
        newest=given.newest,
    )


def _name(given: Arguments) -> str:
    if given.remote is not None:
        return str(given.remote)
    return given.agent or (given.command[0].rpartition("/")[2] if given.command else "accord")


def _on_a_terminal() -> bool:
    """Whether there is a screen to draw on; a terminal that calls itself dumb has none."""
    if os.environ.get("TERM") == "dumb":
        return False
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in cast("tuple[object, ...]", streams))  # type: ignore[attr-defined]
