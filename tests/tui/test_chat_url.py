"""`accord chat --url` through a real gateway: a turn, a dialog, a loaded session, and wrong addresses."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from tests.tui.chat import DEMO_AGENT, KEEPER, Chat, running_chat
from tests.tui.test_chat_command import terminal
from tests.tui.test_chat_mouse import WORKER

from accord.cli.chat_command import chat_start, read_arguments
from accord.errors import UsageError
from accord.tui.wire_screen import WireScreen
from accord.wire.remote.address import NetworkTimeouts


@pytest.fixture
def gateway(tmp_path: Path) -> Generator[GatewayProcess]:
    """A gateway with its own Accord home and the demo agent."""
    home = tmp_path / "gateway"
    write_servers(home)
    with running_gateway(home) as running:
        yield running


def write_servers(home: Path, program: str = DEMO_AGENT[1]) -> None:
    """Configure an agent as the default agent of a gateway."""
    (home / "config").mkdir(parents=True)
    servers = {"demo": {"command": sys.executable, "args": [program]}}
    (home / "config" / "acp.json").write_text(json.dumps({"agent_servers": servers, "defaultAgent": "demo"}))


def running_chat_at(url: str, folder: Path, *words: str) -> object:
    start = chat_start(read_arguments(["--url", url, "--cwd", str(folder), *words]))
    assert start.remote is not None
    remote = replace(start.remote, timeouts=NetworkTimeouts(max_retry_pause=0.2))
    return running_chat(folder, find=start.find_agent, remote=remote, session=start.session)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_turn_dialog_and_session_load_through_the_gateway(
    gateway: GatewayProcess, tmp_path: Path, scheme: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    url = f"{scheme}://127.0.0.1:{gateway.port}/acp#token={gateway.token}"
    async with running_chat_at(url, folder) as chat:  # type: ignore[attr-defined]
        await run_turns(chat)
        await chat.pilot.press("f12")
        await chat.wait_until(lambda: isinstance(chat.app.screen, WireScreen))
        await chat.wait_until(lambda: "session/prompt" in chat.screen)
        assert gateway.token not in chat.screen
        session = chat.view.chat_session.session.id
    async with running_chat_at(url, folder, "--session", session) as chat:  # type: ignore[attr-defined]
        await chat.wait_ready()
        await chat.wait_for_text("heard hello")
        await chat.send("again")
        await chat.wait_for_text("heard again")


async def run_turns(chat: Chat) -> None:
    await chat.wait_ready()
    await chat.send("hello")
    await chat.wait_for_text("heard hello")
    await chat.send("ask")
    await chat.wait_for_dialog()
    await chat.pilot.press("3")
    await chat.wait_for_text('"optionId": "no"')
    await chat.wait_ready()


async def test_a_lost_gateway_is_called_that_and_the_chat_reconnects_by_itself(tmp_path: Path) -> None:
    home, folder = tmp_path / "gateway", tmp_path / "project"
    folder.mkdir()
    write_servers(home)
    with running_gateway(home) as first:
        port, url = first.port, f"ws://127.0.0.1:{first.port}/acp#token={first.token}"
        async with running_chat_at(url, folder) as chat:  # type: ignore[attr-defined]
            await chat.wait_ready()
            await chat.send("hello")
            await chat.wait_for_text("heard hello")
            await chat.type("typed before the loss")
            first.signal(signal.SIGKILL)
            await chat.wait_until(lambda: "gateway lost, reconnecting" in chat.screen)
            assert "the agent has ended" not in chat.screen.lower()
            with running_gateway(home, "--port", str(port)):
                await chat.wait_for_text("Connected to the gateway again; the session continues.")
                await chat.wait_ready()
                assert chat.text.count("heard hello") == 1
                assert chat.view.prompt.editor.text == "typed before the loss"
                await chat.pilot.press("enter")
                await chat.wait_for_text("heard typed before the loss")


async def test_a_prompt_sent_while_the_gateway_is_lost_is_sent_when_it_is_back(tmp_path: Path) -> None:
    home, folder = tmp_path / "gateway", tmp_path / "project"
    folder.mkdir()
    write_servers(home)
    with running_gateway(home) as first:
        port, url = first.port, f"http://127.0.0.1:{first.port}/acp#token={first.token}"
        async with running_chat_at(url, folder) as chat:  # type: ignore[attr-defined]
            await chat.wait_ready()
            await chat.send("wait")
            await chat.wait_for_text("waiting")
            first.signal(signal.SIGKILL)
            await chat.wait_for_text("The gateway is lost", "This chat reconnects by itself")
            await chat.send("from outside")
            with running_gateway(home, "--port", str(port)):
                await chat.wait_for_text("The gateway is lost", "Connected to the gateway again")
                await chat.wait_for_text("heard from outside")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_typed_text_survives_a_lost_gateway_on_a_terminal(tmp_path: Path, home: Path) -> None:
    gateway_home, folder = tmp_path / "gateway", tmp_path / "project"
    folder.mkdir()
    write_servers(gateway_home)
    with running_gateway(gateway_home) as first:
        url = f"ws://127.0.0.1:{first.port}/acp#token={first.token}"
        with terminal(tmp_path, home, (80, 24), "--url", url) as tmux:
            tmux.wait_for_text("ready")
            tmux.type("-l", "typed before the loss")
            tmux.wait_for_text("typed before the loss")
            first.signal(signal.SIGKILL)
            tmux.wait_for_text("The gateway is lost", "gateway lost, reconnecting")
            with running_gateway(gateway_home, "--port", str(first.port)):
                tmux.wait_for_text("Connected to the gateway again", "typed before the loss")
                tmux.type("Enter")
                tmux.wait_for_text("heard typed before the loss")


async def test_output_of_a_command_is_shown_while_it_runs_at_the_gateway(tmp_path: Path) -> None:
    home, folder = tmp_path / "gateway", tmp_path / "project"
    folder.mkdir()
    write_servers(home, WORKER[1])
    os.mkfifo(folder / "seen")
    with running_gateway(home) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}/acp#token={gateway.token}"
        async with running_chat_at(url, folder) as chat:  # type: ignore[attr-defined]
            await chat.wait_ready()
            await chat.send("run echo fir''st line; cat seen; echo la''st line")
            await chat.wait_for_text("first line")
            assert chat.phase == "running"
            (folder / "seen").write_text("seen by the user\n")
            await chat.wait_for_text("first line", "seen by the user", "last line")
            await chat.wait_ready()


async def test_a_wrong_token_is_reported(gateway: GatewayProcess, tmp_path: Path) -> None:
    url = f"ws://127.0.0.1:{gateway.port}/#token=wrong"
    async with running_chat_at(url, tmp_path) as chat:  # type: ignore[attr-defined]
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text("the token is missing or wrong")
        assert "#token" not in chat.screen


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--url", "box:80"], "not the address of an agent"),
        (["--url", "ws://box/#token=hush", "claude"], "claude and --url both name an agent"),
        (["--url", "ws://box/#token=hush", "--", "agent"], "--url and agent both name an agent"),
        (["--token-file", "x"], "--token-file needs --url"),
        (["--url", "ws://box/", "--token-file", "/nowhere"], "cannot read"),
    ],
)
def test_wrong_usage_is_refused_without_the_token(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as found:
        read_arguments(words)
    assert "hush" not in str(found.value)


def test_a_remote_folder_does_not_need_to_exist_here() -> None:
    arguments = read_arguments(["--url", "ws://box/", "--cwd", "/not/on this/machine"])
    assert chat_start(arguments).cwd == "/not/on this/machine"


async def test_the_dashboard_shows_what_other_sessions_of_the_gateway_wait_for(tmp_path: Path) -> None:
    home, folder = tmp_path / "gateway", tmp_path / "project"
    folder.mkdir()
    write_servers(home, KEEPER[1])
    with running_gateway(home) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}/acp#token={gateway.token}"
        async with running_chat_at(url, folder) as asking:  # type: ignore[attr-defined]
            await asking.wait_ready()
            await asking.send("ask")
            await asking.wait_for_dialog()
            async with running_chat_at(url, folder) as chat:  # type: ignore[attr-defined]
                await chat.wait_ready()
                await chat.pilot.press("alt+d")
                await chat.wait_until(lambda: "At the gateway" in chat.screen)
                await chat.wait_until(lambda: "waits for an answer: run the tests" in chat.screen)
                await chat.pilot.press("down", "enter")
                await chat.wait_until(lambda: len(chat.app.screen_stack) == 1)
                await chat.wait_for_dialog()  # the question is shown here, too
