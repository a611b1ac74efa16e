"""The mouse in the conversation and in questions, and what commands of the agent print while they run."""

import asyncio
import os
import sys
from pathlib import Path

from tests.tui.chat import Chat, chatting
from textual.events import MouseScrollUp

WORKER = (sys.executable, str(Path(__file__).parent / "agents" / "worker.py"))


async def click_on(chat: Chat, text: str) -> None:
    """Press the mouse where this stands on the screen."""
    await chat.until(lambda: text in chat.screen)
    row, line = next((row, line) for row, line in enumerate(chat.screen.splitlines()) if text in line)
    await chat.pilot.click(offset=(line.index(text) + 1, row))


async def test_a_click_on_the_headline_of_a_call_unfolds_and_folds_it(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("tool")
        await chat.ready()
        await click_on(chat, "Read it")
        await chat.shows("│ secret file text")
        assert chat.view.transcript.marked is not None
        await click_on(chat, "secret file text")
        await chat.until(lambda: "│ secret file text" in chat.screen)
        await click_on(chat, "Read it")
        await chat.until(lambda: "secret file text" not in chat.text)


async def test_a_click_on_a_thought_shows_it(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("think first this\nand then that")
        await chat.shows("thought it over")
        await chat.ready()
        await click_on(chat, "Thought")
        await chat.shows("│ and then that")


async def test_a_click_on_an_answer_counts_once_the_question_could_be_seen(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.until(lambda: chat.view.dialog)
        await click_on(chat, "Allow once")
        assert not dialog.answer.done(), "nobody had seen it yet"
        await chat.question()
        await click_on(chat, "Reject")
        await chat.shows('"optionId": "no"')


async def test_the_wheel_scrolls_and_the_end_is_followed_again(tmp_path: Path) -> None:
    lines = "\n\n".join(f"line {number}" for number in range(80))
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say(f"say {lines}")
        await chat.shows("line 79", "done")
        transcript = chat.view.transcript
        await chat.until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y > 0)
        transcript.post_message(MouseScrollUp(transcript, 5, 5, 0, -1, 0, False, False, False))
        await chat.until(lambda: not transcript.following)
        await chat.pilot.press("f6", "end")
        await chat.until(
            lambda: transcript.following and transcript.scroll_offset.y == transcript.max_scroll_y
        )


async def test_what_a_command_of_the_agent_prints_is_shown_while_it_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with chatting(tmp_path, WORKER, permissions="all") as chat:
        await chat.ready()
        await chat.say(f"run printf '\\033[31mfirst\\033[0m\\n'; read word < {gate}; echo then $word; exit 3")
        await chat.shows("● run Run it", "│ first")
        assert chat.phase == "running"
        assert "then" not in chat.text.split("│ first")[1]
        await asyncio.to_thread(gate.write_text, "go\n")
        await chat.shows("│ then go", "│ exit code 3", "✗ run Run it")
        await chat.ready()
