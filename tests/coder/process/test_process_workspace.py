"""Files and commands through the client, where the client offers them."""

from pathlib import Path

import pytest
from tests.agent.agent_client import EVERYTHING
from tests.coder.process.editor import started
from tests.coder.process.long_command import LongCommand, watch_command
from tests.coder.process.terminals import Terminals

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


@pytest.mark.rule("plan.entry-members", "option.flat-or-grouped")
async def test_editor_buffer_wins_over_the_file_on_disk(home: Path, project: Path) -> None:
    path = str(project / "a.py")
    async with started(home, project, capabilities=FILES) as editor:
        editor.offer_files()
        editor.buffers[path] = "alpha = 100  # unsaved\n"
        chat = await editor.new()
        record = await chat.turn("read a.py then replace 100 with 200 in a.py then read a.py")
        assert record.calls[0]["rawOutput"]["text"] == "alpha = 100  # unsaved"
        assert record.calls[-1]["rawOutput"]["text"] == "alpha = 200  # unsaved"
        assert editor.buffers[path] == "alpha = 200  # unsaved\n"
        [write] = editor.asked_for("fs/write_text_file")
        assert (write["path"], write["sessionId"]) == (path, chat.id)


async def test_files_are_read_from_disk_when_the_client_cannot_read(home: Path, project: Path) -> None:
    async with started(home, project, capabilities={"fs": {"writeTextFile": True}}) as editor:
        editor.offer_files()
        editor.buffers[str(project / "a.py")] = "unsaved\n"
        chat = await editor.new()
        record = await chat.turn("read a.py then write new.txt: hello")
        assert record.calls[0]["rawOutput"]["text"] == "alpha = 1  # TODO"
        assert editor.asked_for("fs/read_text_file") == []
        assert (project / "new.txt").exists()


async def test_failed_client_write_does_not_end_the_turn(home: Path, project: Path) -> None:
    async with started(home, project, capabilities=FILES) as editor:
        editor.offer_files()
        editor.answers["fs/write_text_file"] = lambda params: {"code": -32603, "message": "disk full"}
        chat = await editor.new()
        record = await chat.turn("write new.txt: hello")
        assert (record.stop, record.calls[-1]["status"]) == ("end_turn", "failed")
        assert "disk full" in str(record.calls[-1]["content"])


@pytest.mark.rule("command.members", "session-info.members")
async def test_command_runs_in_the_client_terminal_shown_in_the_call(home: Path, project: Path) -> None:
    async with started(home, project, capabilities={"terminal": True}) as editor:
        terminals = Terminals(editor)
        chat = await editor.new()
        record = await chat.turn("run touch made.txt; echo done; exit 3")
        shown = [
            item["terminalId"]
            for update in record.updates
            for item in update.get("content", [])
            if isinstance(item, dict) and item.get("type") == "terminal"
        ]
        assert shown
        [terminal] = set(shown)
        assert record.call["rawOutput"]["exit_code"] == 3
        assert record.call["rawOutput"]["output"].strip() == "done"
        assert (project / "made.txt").exists()
        await terminals.aclose()
        assert terminals.asked[-1] == ("release", terminal)
    async with started(home, project) as editor:
        _, again = await editor.open("session/load", chat.id)
        [call] = [update for update in again if update["sessionUpdate"] == "tool_call"]
        assert "done" in call["content"][0]["content"]["text"], (
            "the output must be stored for clients without this terminal"
        )


async def test_cancel_ends_the_client_terminal(home: Path, project: Path) -> None:
    async with (
        watch_command(project) as line,
        started(home, project, capabilities={"terminal": True}) as editor,
    ):
        terminals = Terminals(editor)
        chat = await editor.new()
        turn = chat.prompt(LongCommand.COMMAND)
        await line.started()
        chat.cancel()
        assert (await chat.finish(turn)).stop == "cancelled"
        await editor.wire.first(lambda message: message.get("method") == "terminal/release")
        await line.ended()
        await terminals.aclose()
        assert (await chat.turn("list")).stop == "end_turn"


async def test_user_is_asked_by_form_or_by_extension(home: Path, project: Path) -> None:
    async with started(home, project, capabilities={"elicitation": {"form": {}}}) as editor:
        editor.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"answer": "blue"},
        }
        record = await (await editor.new()).turn("ask: which colour?")
        assert record.call["rawOutput"] == {"answer": "blue"}
        [form] = editor.asked_for("elicitation/create")
        assert form["message"] == "which colour?"
    async with started(home, project) as editor:
        chat = await editor.new()
        for answer in ({"answer": "green"}, {"outcome": "answered", "text": "green"}):
            editor.answers["_agentao.cn/ask_user"] = lambda params, answer=answer: answer
            assert (await chat.turn("ask: which colour?")).call["rawOutput"] == {"answer": "green"}


async def test_messages_for_a_client_with_all_capabilities_are_valid(home: Path, project: Path) -> None:
    """With all capabilities, messages that need a capability are checked too."""
    async with started(home, project, capabilities=EVERYTHING, edition="schema.unstable") as editor:
        editor.offer_files()
        editor.answers["elicitation/create"] = lambda params: {"action": "decline"}
        terminals = Terminals(editor)
        chat = await editor.new()
        for prompt in (
            "write x.txt: 1 then replace 1 with 2 in x.txt then run cat x.txt",
            "plan: one; two then ask: which? then delegate: read a.py",
            "/compact",
            "/tools",
        ):
            assert (await chat.turn(prompt)).stop == "end_turn"
        await terminals.aclose()
