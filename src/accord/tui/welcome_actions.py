"""Fills in the first screen, and does what the user chooses on it. Imported on first use."""

import asyncio
import subprocess
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from accord.errors import AccordError, StoreError, UsageError
from accord.frontend.agent_offers import AgentOffer, InstallWay, add_agent, agent_offers, missing_tool
from accord.frontend.agent_offers import require_success as require_install
from accord.frontend.display_text import error_line
from accord.frontend.known_agents import BUILT_IN, find_known_agent
from accord.frontend.recording import RecordedSessions
from accord.frontend.transcript import SessionListEntry
from accord.schema import AuthMethodTerminal
from accord.tui.list_screen import ListRow, ListScreen
from accord.tui.welcome import WelcomeRow

if TYPE_CHECKING:
    from accord.tui.chat_app import ChatApp
    from accord.tui.chat_types import ChatStart, KeyState
    from accord.tui.session_view import SessionView

_SHOWN_SESSIONS: Final = 5
_SHOWN_AGENTS: Final = 5
_SCRIPT: Final = "rehearsal"
"""The model that needs no key."""


async def fill_in(view: "SessionView") -> None:
    """Look up sessions, agents and the key, and show each as soon as it is known."""
    facts, welcome, cwd = view.welcome.facts, view.welcome, view.start.cwd
    if view.start.remote is None:
        facts.sessions = await asyncio.to_thread(_recent_sessions, cwd)
        welcome.update()
        with suppress(AccordError):  # a broken acp.json: the agent says so
            facts.agents = _agent_rows(await asyncio.to_thread(agent_offers, cwd), view)
            welcome.update()
        await check_key(view)


async def check_key(view: "SessionView") -> None:
    """Look up the key of the coding agent, then test it with a request."""
    check = view.chat_app.check_key
    if check is None or not uses_own_key(view.start):
        return
    for online in (False, True):
        state: KeyState = await asyncio.to_thread(check, online)
        view.welcome.facts.key = state
        view.welcome.update()
        if state.problem or not state.key or not view.welcome.shown:
            return


def uses_own_key(start: "ChatStart") -> bool:
    """Whether a session is with the coding agent of this package, and its model is not a script."""
    is_script = start.model_script or start.model == _SCRIPT
    return start.remote is None and start.name == BUILT_IN and not (start.from_command or is_script)


def _recent_sessions(cwd: str) -> list[WelcomeRow]:
    try:
        records = RecordedSessions.open()
    except StoreError:
        return []
    try:
        found = islice(records.list(cwd, used_only=True), _SHOWN_SESSIONS * 2)
        entries = [SessionListEntry.from_recording(recorded) for recorded in found]
    except StoreError:
        return []
    finally:
        records.close()
    shown = [entry for entry in entries if not entry.archived][:_SHOWN_SESSIONS]
    return [
        WelcomeRow("session", entry.shown_title, f"{entry.agent} · {entry.when}", entry) for entry in shown
    ]


def _agent_rows(offers: list[AgentOffer], view: "SessionView") -> list[WelcomeRow]:
    others = [offer for offer in offers if offer.name != view.start.name and offer.group != "untrusted"]
    return [
        WelcomeRow("agent", offer.title or offer.name, offer.needs, offer) for offer in others[:_SHOWN_AGENTS]
    ]


async def choose(app: "ChatApp", row: WelcomeRow) -> None:
    """Do what a row of the first screen says."""
    view = app.view
    match row.kind:
        case "example":
            view.prompt.editor.write(row.name)
            view.prompt.editor.focus()
        case "session":
            from accord.tui.sessions_screen import open_session, start_options

            entry: SessionListEntry = row.value
            name = None if entry.agent == view.start.name else entry.agent
            await open_session(app, start_options(app, view, name, entry.cwd, entry.session_id))
        case "agent":
            await open_agent(app, row.value)
        case "sign_in":
            await sign_in(app)
        case "tour":
            await take_tour(app)
        case "agents":
            await app.action_do("agent")


# -- signing in ----------------------------------------------------------------------------------------------


async def sign_in(app: "ChatApp") -> None:
    """Enter a key for the coding agent, or sign in to the agent of this session."""
    view = app.view
    chat = view.chat_session
    if chat is None or chat.agent is None or chat.phase in ("connecting", "running", "cancelling"):
        app.notify("Cannot sign in now: the agent is not ready")
        return
    if not chat.agent.auth_methods:
        app.notify(f"{chat.agent.name} offers no sign-in here; see its documentation")
        return
    if not uses_own_key(view.start):
        await chat.sign_in()
        return
    terminal = next(method for method in chat.agent.auth_methods if isinstance(method, AuthMethodTerminal))
    try:
        await chat.agent.sign_in(terminal)
    except AccordError as error:
        view.note(f"No key was stored: {error}", "warn")
    else:
        from accord.tui.sessions_screen import open_session

        await open_session(app, replace(view.start, session=None, newest=False))  # with the new model


async def take_tour(app: "ChatApp") -> None:
    """Show the tour in a tab of its own."""
    from accord.tui.tour import open_tour

    await open_tour(app)


# -- agents --------------------------------------------------------------------------------------------------


async def open_agent(app: "ChatApp", offer: AgentOffer) -> None:
    """Open a session with an agent; offer to install it first if it is missing."""
    from accord.tui.sessions_screen import open_session, start_options

    if offer.group == "missing" and not await _install(app, offer):
        return
    await open_session(app, start_options(app, app.view, offer.name, app.view.start.cwd))


async def _install(app: "ChatApp", offer: AgentOffer) -> bool:
    """Let the user choose how to install an agent. Return whether it is there now."""
    known = find_known_agent(offer.name)
    if not offer.installs:
        app.notify(missing_tool(known) if known is not None else f"{offer.name} is not installed", timeout=12)
        return False
    rows = [ListRow(None, "Not now"), *(ListRow(way, way.title) for way in offer.installs)]
    screen = ListScreen(f"{offer.title} is not installed", rows)
    screen.add_class("small")
    way: Any = await app.push_screen_wait(screen)
    if not isinstance(way, InstallWay):
        return False
    try:
        if way.command:
            code = app.view.run_without_screen(lambda: subprocess.call(way.command))
            require_install(way.command, code)
        await asyncio.to_thread(add_agent, offer.name, way)
    except (OSError, UsageError) as error:
        reason = error_line(error) if isinstance(error, AccordError) else str(error)
        app.view.note(f"{offer.title} was not installed: {reason}", "bad")
        return False
    return True
