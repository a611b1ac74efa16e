"""`accord chat --url` through a real gateway: a turn, a question, a session taken up again, and what is wrong with an address."""

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from tests.tui.chat import PUPPET, Chat, chatting

from accord.cli.chat import start_of
from accord.cli.chatting.arguments import read_arguments
from accord.errors import UsageError
from accord.tui.wire.screen import WireScreen


@pytest.fixture
def gateway(tmp_path: Path) -> Generator[GatewayProcess]:
    """A gateway with a home of its own, in front of the puppet."""
    home = tmp_path / "gateway"
    (home / "config").mkdir(parents=True)
    servers = {"puppet": {"command": sys.executable, "args": [PUPPET[1]]}}
    (home / "config" / "acp.json").write_text(
        json.dumps({"agent_servers": servers, "defaultAgent": "puppet"})
    )
    with running_gateway(home) as running:
        yield running


def chatting_at(url: str, folder: Path, *words: str) -> object:
    start = start_of(read_arguments(["--url", url, "--cwd", str(folder), *words]))
    return chatting(folder, find=start.find, remote=start.remote, session=start.session)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_turn_and_a_question_through_the_gateway(
    gateway: GatewayProcess, tmp_path: Path, scheme: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    url = f"{scheme}://127.0.0.1:{gateway.port}/acp#token={gateway.token}"
    async with chatting_at(url, folder) as chat:  # type: ignore[attr-defined]
        await in_turns(chat)
        await chat.pilot.press("f12")
        await chat.until(lambda: isinstance(chat.app.screen, WireScreen))
        await chat.until(lambda: "session/prompt" in chat.screen)
        assert gateway.token not in chat.screen
        session = chat.view.conversation.session.id
    async with chatting_at(url, folder, "--session", session) as chat:  # type: ignore[attr-defined]
        await chat.ready()
        await chat.shows("heard hello")
        await chat.say("again")
        await chat.shows("heard again")


async def in_turns(chat: Chat) -> None:
    await chat.ready()
    await chat.say("hello")
    await chat.shows("heard hello")
    await chat.say("ask")
    await chat.question()
    await chat.pilot.press("3")
    await chat.shows('"optionId": "no"')
    await chat.ready()


async def test_a_gateway_that_does_not_know_the_token_is_told_of(gateway: GatewayProcess, tmp_path: Path) -> None:
    async with chatting_at(f"ws://127.0.0.1:{gateway.port}/#token=wrong", tmp_path) as chat:  # type: ignore[attr-defined]
        await chat.until(lambda: chat.phase == "failed")
        await chat.shows("the token is missing or wrong")
        assert "#token" not in chat.screen


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--url", "box:80"], "no address of an agent"),
        (["--url", "ws://box/#token=hush", "claude"], "claude and --url both name an agent"),
        (["--url", "ws://box/#token=hush", "--", "agent"], "--url and agent both name an agent"),
        (["--token-file", "x"], "--token-file goes with --url"),
        (["--url", "ws://box/", "--token-file", "/nowhere"], "cannot be read"),
    ],
)
def test_wrong_usage(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as found:
        read_arguments(words)
    assert "hush" not in str(found.value)


def test_a_folder_of_the_other_machine_need_not_be_here() -> None:
    given = read_arguments(["--url", "ws://box/", "--cwd", "/not/on this/machine"])
    assert start_of(given).cwd == "/not/on this/machine"
