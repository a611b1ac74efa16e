"""The transcript: escape sequences, folding, scrolling, copying, screen sizes, themes."""

from pathlib import Path

from tests.tui.chat import Chat, running_chat

from accord.tui.transcript.transcript_items import SubagentItem
from accord.tui.transcript.transcript_view import TranscriptView


def strips_of(chat: Chat) -> str:
    """All text that is sent to the terminal."""
    return "".join(segment.text for strip in chat.app.screen._compositor.render_strips() for segment in strip)


async def test_escape_sequences_never_reach_the_terminal(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("evil")
        await chat.wait_for_text("calm<U+202E>txet red end")
        drawn = strips_of(chat)
        assert not any(char in drawn for char in "\x1b\x07\x9b\u202e")
        assert "owned" not in drawn


async def test_a_thought_is_one_line_until_it_is_unfolded(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("think first this\nand then that")
        await chat.wait_for_text("▸ Thought", "first this", "thought it over")
        assert "│ and then that" not in chat.text
        await chat.pilot.press("ctrl+o")
        await chat.wait_for_text("▾ Thought", "│ and then that")


async def test_a_tool_call_unfolds_to_its_content(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("tool")
        await chat.wait_for_text("✓ Read it  /p/src/app.py:3")
        assert "secret file text" not in chat.text
        await chat.pilot.press("ctrl+o")
        await chat.wait_for_text("│ secret file text")
        await chat.pilot.press("ctrl+o")
        await chat.wait_until(lambda: "secret file text" not in chat.text)


async def test_an_item_is_selected_and_copied_by_key(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("say copy **this**")
        await chat.wait_for_text("copy this")
        await chat.pilot.press("f6", "k", "k", "c")
        await chat.wait_until(lambda: chat.app.clipboard == "copy **this**")
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: chat.app.focused is chat.view.prompt.editor)


async def test_the_end_stays_in_view_unless_the_user_scrolled_up(tmp_path: Path) -> None:
    lines = "\n\n".join(f"line {number}" for number in range(80))
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send(f"say {lines}")
        await chat.wait_for_text("line 79", "done")
        transcript: TranscriptView = chat.view.transcript
        await chat.wait_until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y > 0)
        await chat.pilot.press("pageup", "pageup")
        before = chat.screen.splitlines()[3]
        assert not transcript.following
        chat.view.note("something else")
        await chat.wait_for_text("something else")
        assert chat.screen.splitlines()[3] == before
        await chat.send("more")
        await chat.wait_for_text("heard more")
        await chat.wait_until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y)


async def test_a_long_session_scrolls_without_jumps(tmp_path: Path) -> None:
    history = "|".join(f"question {number} " + "word " * (number % 30) for number in range(300))
    async with running_chat(tmp_path, session="s1", env={"DEMO_HISTORY": history}) as chat:
        await chat.wait_ready()
        transcript = chat.view.transcript
        await chat.wait_until(lambda: "heard question 299" in chat.screen)
        height = transcript.scrollable_content_region.height

        def rows(first: int) -> list[str]:
            return [transcript.text_at(transcript.scroll_offset.y + first + row) for row in (0, 1)]

        for _ in range(8):
            top = rows(0)
            await chat.pilot.press("pageup")
            assert rows(height - 2) == top, "the first row must now be the last"
        await chat.pilot.press("f6", "home")
        await chat.wait_until(lambda: "question 0" in chat.screen)
        assert transcript.scroll_offset.y == 0


async def test_a_long_session_shows_its_end_before_the_rest(tmp_path: Path) -> None:
    history = "|".join(f"question {number}" for number in range(400))
    async with running_chat(tmp_path, session="s1", env={"DEMO_HISTORY": history}) as chat:
        transcript = chat.view.transcript
        await chat.wait_until(lambda: "heard question 399" in chat.screen)
        await chat.pilot.press("pageup")
        top = chat.screen.splitlines()[1:4]
        await chat.wait_until(lambda: len(transcript.items) == 800)
        await chat.pilot.pause()
        assert chat.screen.splitlines()[1:4] == top, "the view must not move while older items are added"
        assert [line for line in transcript.lines() if line.startswith("▌")] == [
            f"▌ question {number}" for number in range(400)
        ]


async def test_dialogs_are_usable_at_any_screen_size(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(80, 24)) as chat:
        await chat.wait_ready()
        await chat.send("edit")
        await chat.wait_for_dialog()
        for width, height in ((40, 15), (200, 60), (80, 24)):
            await chat.pilot.resize_terminal(width, height)
            await chat.wait_until(lambda: "1 a  Allow once" in chat.screen and "3 r  Reject" in chat.screen)
        await chat.pilot.press("1")
        await chat.wait_for_text('"optionId": "yes"')


async def test_the_help_page_shows_the_keys(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(100, 50)) as chat:
        await chat.pilot.press("f1")
        await chat.wait_until(lambda: "Ctrl+R" in chat.screen and "a new line" in chat.screen)
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: "a new line" not in chat.screen)


async def test_a_new_theme_redraws_the_transcript(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("say hello")
        await chat.wait_for_text("hello")
        before = chat.view.transcript._update_palette().text
        chat.app.theme = "textual-light"
        await chat.wait_until(lambda: chat.view.transcript.palette.text != before)
        await chat.wait_for_text("hello")


async def test_a_child_session_shows_its_state_and_unfolds_to_its_description(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("children running")
        await chat.wait_for_text("↳ Sub-agent: Look at the tests · working")
        await chat.send("children idle")
        await chat.wait_for_text("↳ Sub-agent: Look at the tests · done")
        assert "working" not in chat.text
        await chat.pilot.press("f6", "k")
        while not isinstance(chat.view.transcript.selected, SubagentItem):
            await chat.pilot.press("k")
        await chat.pilot.press("enter")
        await chat.wait_for_text("All of them")
