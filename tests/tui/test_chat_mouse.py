"""The mouse in the transcript and in dialogs, and live output of commands of the agent."""

import asyncio
import os
import sys
from pathlib import Path

from tests.tui.chat import Chat, running_chat
from textual.events import MouseScrollUp

WORKER = (sys.executable, str(Path(__file__).parent / "agents" / "worker.py"))


async def click_on(chat: Chat, text: str) -> None:
    """Click on this text on the screen."""
    await chat.wait_until(lambda: text in chat.screen)
    await chat.wait_for_layout()
    row, line = next((row, line) for row, line in enumerate(chat.screen.splitlines()) if text in line)
    await chat.pilot.click(offset=(line.index(text) + 1, row))


async def test_a_click_on_a_tool_call_headline_folds_and_unfolds_it(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("tool")
        await chat.wait_ready()
        await click_on(chat, "Read it")
        await chat.wait_for_text("│ secret file text")
        assert chat.view.transcript.selected is not None
        await click_on(chat, "secret file text")
        await chat.wait_until(lambda: "│ secret file text" in chat.screen)
        await click_on(chat, "Read it")
        await chat.wait_until(lambda: "secret file text" not in chat.text)


async def test_a_click_on_a_thought_unfolds_it(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("think first this\nand then that")
        await chat.wait_for_text("thought it over")
        await chat.wait_ready()
        await click_on(chat, "Thought")
        await chat.wait_for_text("│ and then that")


async def test_a_click_on_an_answer_counts_only_when_the_dialog_was_visible(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_until(lambda: chat.view.dialog)
        await click_on(chat, "Allow once")
        assert not dialog.answer.done(), "a dialog that was not visible yet must ignore clicks"
        await chat.wait_for_dialog()
        await click_on(chat, "Reject")
        await chat.wait_for_text('"optionId": "no"')


async def test_the_wheel_scrolls_and_end_follows_again(tmp_path: Path) -> None:
    lines = "\n\n".join(f"line {number}" for number in range(80))
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send(f"say {lines}")
        await chat.wait_for_text("line 79", "done")
        transcript = chat.view.transcript
        await chat.wait_for_layout()
        await chat.wait_until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y > 0)
        transcript.post_message(MouseScrollUp(transcript, 5, 5, 0, -1, 0, False, False, False))
        await chat.wait_until(lambda: not transcript.following)
        await chat.pilot.press("f6", "end")
        await chat.wait_until(
            lambda: transcript.following and transcript.scroll_offset.y == transcript.max_scroll_y
        )


async def test_command_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with running_chat(tmp_path, WORKER, permissions="all") as chat:
        await chat.wait_ready()
        await chat.send(
            f"run printf '\\033[31mfirst\\033[0m\\n'; read word < {pipe}; echo then $word; exit 3"
        )
        await chat.wait_for_text("● Run it", "│ first")
        assert chat.phase == "running"
        assert "then" not in chat.text.split("│ first")[1]
        await asyncio.to_thread(pipe.write_text, "go\n")
        await chat.wait_for_text("│ then go", "│ exit code 3", "✗ Run it")
        await chat.wait_ready()
