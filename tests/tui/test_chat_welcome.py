"""The first screen: model and key, sign-in, examples, earlier sessions, agents to choose and to install."""

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tui.chat import DEMO_AGENT, Chat, running_chat
from tests.tui.test_chat_command import terminal

from accord.cli.agent_choice import choose_agent
from accord.cli.model_check import model_key_state
from accord.frontend.agent_config.agent_entry import built_in
from accord.testing.model_server import ModelFault, ModelServer
from accord.tui.chat_types import KeyState

KEY = "sk-not-a-real-key"


def own_agent(state: KeyState | None = None) -> dict[str, Any]:
    """A chat with the coding agent, of which `state` says whether it has a key."""

    def choose(name: str, cwd: str, trusting: Any) -> Any:
        return choose_agent(name, (), cwd, trust=False, ask_trust=trusting)

    app: dict[str, Any] = {"choose_agent": choose}
    if state is not None:
        app["check_key"] = lambda online: state
    return {"name": "accord", "find": lambda _: built_in(), "app": app, "size": (100, 36)}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts programs into a folder that is first on PATH; no agent and no npm is installed otherwise."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("git", "sh"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return add


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


async def shown(chat: Chat, *texts: str) -> None:
    await chat.wait_until(lambda: all(text in chat.screen for text in texts))


async def test_examples_and_agents_are_shown_and_an_example_goes_into_the_prompt(
    folder: Path, programs: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("gemini", "#!/bin/sh\n")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    async with running_chat(folder, size=(100, 36)) as chat:
        await shown(chat, "Explain this project to me", "Find a bug here", "Write a test")
        await shown(
            chat, "Gemini CLI", "uses GEMINI_API_KEY", "not installed · its sign-in or ANTHROPIC_API_KEY"
        )
        await chat.wait_ready()
        await chat.pilot.press("tab", "down", "enter")
        assert chat.view.prompt.editor.text == "Find a bug here, and fix it"
        assert chat.view.prompt.editor.has_focus
        await chat.pilot.press("enter")
        await chat.wait_for_text("heard Find a bug here, and fix it")
        await chat.wait_until(lambda: "Explain this project to me" not in chat.screen)


async def test_earlier_sessions_of_the_folder_are_listed_and_continue(folder: Path, tmp_path: Path) -> None:
    async with running_chat(folder) as chat:
        await chat.wait_ready()
        await chat.send("Fix the parser")
        await chat.wait_for_text("heard Fix the parser")
        await chat.wait_ready()
    other = tmp_path / "other"
    other.mkdir()
    async with running_chat(other) as chat:
        await shown(chat, "Agents · Ctrl+N lists all")
        assert "Fix the parser" not in chat.screen
    async with running_chat(folder, env={"DEMO_HISTORY": "Fix the parser"}) as chat:
        await shown(chat, "Continue in this folder", "Fix the parser", "Agents ·")
        await chat.pilot.press("tab", "down", "down", "down", "enter")
        await chat.wait_for_text("▌ Fix the parser", "heard Fix the parser")
        assert len(chat.app.views) == 1


async def test_without_a_key_one_line_says_so_and_offers_sign_in_and_the_tour(folder: Path) -> None:
    async with running_chat(folder, **own_agent(KeyState(problem="no model key yet"))) as chat:
        await shown(chat, "! no model key yet", "Enter the key of", "Alt+L", "Take the tour", "Alt+T")
        await chat.wait_ready()
        calls: list[Any] = []
        chat.view.run_without_screen = lambda run: calls.append(run) or 1  # type: ignore[method-assign]
        await chat.pilot.press("alt+l")
        await chat.wait_for_text("No key was stored")
        assert len(calls) == 1, "one key starts the sign-in"


async def test_a_key_that_works_and_one_that_does_not_are_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_MODEL", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with ModelServer(models=["a"]) as good, ModelServer(listing=ModelFault(401, f"no {KEY}")) as bad:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", good.base_url("anthropic"))
        monkeypatch.setenv("ANTHROPIC_MODEL", "a")
        works = await asyncio.to_thread(model_key_state, True)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", bad.base_url("anthropic"))
        refused = await asyncio.to_thread(model_key_state, True)
    assert works == KeyState("anthropic:a", "ANTHROPIC_API_KEY, works")
    assert "the key was refused (401)" in refused.problem
    assert KEY not in refused.problem
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    assert model_key_state(True) == KeyState(problem="no model key yet")
    for state, text in (
        (works, "key: ANTHROPIC_API_KEY, works"),
        (refused, "! anthropic: the key was refused"),
    ):
        async with running_chat(folder, **own_agent(state)) as chat:
            await shown(chat, text)
            assert ("Enter the key of" in chat.screen) is bool(state.problem)


async def test_a_missing_agent_is_installed_from_here_and_opens(
    folder: Path, programs: Callable[[str, str], Path]
) -> None:
    agent = f"#!/bin/sh\nexec {sys.executable} {DEMO_AGENT[1]}\n"
    programs("npm", f"#!{sys.executable}\nimport os, sys\npath = {str(folder)!r}\n"
             f"folder = os.path.dirname(sys.argv[0])\nname = os.path.join(folder, 'codex-acp')\n"
             f"open(name, 'w').write({agent!r})\nos.chmod(name, 0o755)\n")  # fmt: skip
    async with running_chat(folder, **own_agent()) as chat:
        await chat.wait_ready()
        chat.view.run_without_screen = lambda run: run()  # type: ignore[method-assign]
        await chat.send("/new")
        await shown(chat, "Not installed", "Codex · its sign-in or OPENAI_API_KEY")
        await chat.type("codex")
        await chat.pilot.press("enter")
        await shown(
            chat, "Codex is not installed", "Not now", "Run npm install -g @agentclientprotocol/codex-acp"
        )
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: chat.view.start.name == "codex" and chat.phase == "ready")
        await chat.send("hello")
        await chat.wait_for_text("heard hello")


async def test_without_npm_the_list_says_what_to_install(
    folder: Path, programs: Callable[[str, str], Path]
) -> None:
    async with running_chat(folder, **own_agent()) as chat:
        await chat.wait_ready()
        await chat.send("/new")
        await shown(chat, "Not installed")
        await chat.type("codex")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: any("install Node" in text for text in chat.notifications))
        assert len(chat.app.views) == 1


async def test_a_long_reason_why_the_model_cannot_be_used_wraps(folder: Path) -> None:
    reason = (
        "anthropic: cannot reach the provider; " + "check the network, " * 6 + "the proxy and the address"
    )
    for model in ("anthropic:claude", ""):
        async with running_chat(folder, **own_agent(KeyState(model, problem=reason))) as chat:
            await shown(chat, "! anthropic: cannot reach the provider", "Take the tour")
            assert reason in " ".join(chat.screen.split())


@pytest.mark.timeout(180)
async def test_the_tour_shows_a_plan_a_change_and_an_undo_without_a_key(folder: Path) -> None:
    async with running_chat(folder, **own_agent(KeyState(problem="no model key yet"))) as chat:
        await chat.wait_ready()
        await chat.pilot.press("alt+t")
        await chat.wait_for_text("1 of 4")
        await chat.wait_ready()
        project = Path(chat.view.start.cwd)
        await chat.pilot.press("enter")
        await chat.wait_for_text("2 of 4")
        await chat.wait_ready()
        await chat.pilot.press("enter")
        await chat.wait_for_dialog()
        assert "asks to edit" in chat.screen
        assert "file greeting.py" not in chat.screen, "the title and the change name it"
        await chat.pilot.press("e")
        await chat.wait_for_text("Say what to do instead")
        await chat.wait_ready()
        assert chat.view.prompt.editor.text == ""  # the user writes it
        await chat.send("replace Helo with Hello in greeting.py")
        await chat.wait_for_dialog()
        chat.view.prompt.editor.write("mine")
        await chat.pilot.press("a")
        await chat.wait_for_text("3 of 4", "Your text stays in the prompt")
        assert chat.view.prompt.editor.text == "mine"
        chat.view.prompt.clear()
        await chat.pilot.press("alt+s")
        await chat.wait_until(lambda: chat.view.prompt.editor.text == "/undo")
        assert "Hello" in (project / "greeting.py").read_text()
        await chat.wait_ready()
        await chat.pilot.press("enter")
        await chat.wait_for_text("4 of 4")
        assert "Helo" in (project / "greeting.py").read_text()
        await chat.app.close(chat.view)
        assert not project.exists()


async def test_a_long_prompt_and_a_list_of_commands_keep_their_place_on_a_small_screen(folder: Path) -> None:
    async with running_chat(folder, size=(80, 24)) as chat:
        await shown(chat, "Agents · Ctrl+N lists all")
        await chat.wait_ready()
        await chat.type("/")
        await chat.wait_until(lambda: "/help" in chat.screen and "Tab complete" in chat.screen)
        await chat.pilot.press("escape", "backspace")
        chat.view.prompt.editor.write("\n".join(f"line {number}" for number in range(10)))
        await shown(chat, "line 0", "line 9", "Enter send")
        chat.view.prompt.clear()
        await shown(chat, "Agents · Ctrl+N lists all")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_the_first_screen_on_a_terminal(tmp_path: Path, home: Path, size: tuple[int, int]) -> None:
    with terminal(tmp_path, home, size, ACCORD_MODEL="") as tmux:
        tmux.wait_for_text(
            "! no model key yet", "Enter the key", "Take the tour", "Explain this project", "ready"
        )
        tmux.wait_for_text("Agents · Ctrl+N lists all")
        tmux.type("Tab")
        tmux.wait_for_text("▸")
        tmux.type("Down", "Down", "Enter")
        tmux.wait_for_text("│ Explain this project to me")
