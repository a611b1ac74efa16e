"""How the conversation looks: nothing of it reaches the terminal as a command, long ones stay whole, parts unfold."""

from pathlib import Path

from tests.tui.chat import Chat, chatting

from accord.tui.transcript.view import Transcript


def strips_of(chat: Chat) -> str:
    """Everything that is sent to the terminal as text."""
    return "".join(segment.text for strip in chat.app.screen._compositor.render_strips() for segment in strip)


async def test_escape_sequences_and_turned_text_never_reach_the_terminal(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("evil")
        await chat.shows("calm<U+202E>txet red end")
        drawn = strips_of(chat)
        assert not any(char in drawn for char in "\x1b\x07\x9b\u202e")
        assert "owned" not in drawn


async def test_a_thought_is_one_line_until_it_is_unfolded(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("think first this\nand then that")
        await chat.shows("▸ Thought", "first this", "thought it over")
        assert "│ and then that" not in chat.text
        await chat.pilot.press("ctrl+o")
        await chat.shows("▾ Thought", "│ and then that")


async def test_a_tool_call_tells_what_it_is_and_unfolds_to_what_it_gave(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("tool")
        await chat.shows("✓ read Read it  /p/src/app.py:3")
        assert "secret file text" not in chat.text
        await chat.pilot.press("ctrl+o")
        await chat.shows("│ secret file text")
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: "secret file text" not in chat.text)


async def test_reading_marks_items_and_copies_them(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("say copy **this**")
        await chat.shows("copy this")
        await chat.pilot.press("f6", "k", "k", "c")
        await chat.until(lambda: chat.app.clipboard == "copy **this**")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.focused is chat.view.prompt.editor)


async def test_the_end_stays_in_view_unless_somebody_scrolled_up(tmp_path: Path) -> None:
    lines = "\n\n".join(f"line {number}" for number in range(80))
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say(f"say {lines}")
        await chat.shows("line 79", "done")
        transcript: Transcript = chat.view.transcript
        await chat.until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y > 0)
        await chat.pilot.press("pageup", "pageup")
        before = chat.screen.splitlines()[3]
        assert not transcript.following
        chat.view.note("something else")
        await chat.shows("something else")
        assert chat.screen.splitlines()[3] == before
        await chat.say("more")
        await chat.shows("heard more")
        await chat.until(lambda: transcript.scroll_offset.y == transcript.max_scroll_y)


async def test_a_long_session_is_scrolled_without_jumps(tmp_path: Path) -> None:
    history = "|".join(f"question {number} " + "word " * (number % 30) for number in range(300))
    async with chatting(tmp_path, session="s1", env={"PUPPET_HISTORY": history}) as chat:
        await chat.ready()
        transcript = chat.view.transcript
        await chat.until(lambda: "heard question 299" in chat.screen)
        height = transcript.scrollable_content_region.height

        def rows(first: int) -> list[str]:
            return [transcript.text_at(transcript.scroll_offset.y + first + row) for row in (0, 1)]

        for _ in range(8):
            top = rows(0)
            await chat.pilot.press("pageup")
            assert rows(height - 2) == top, "what was on top is at the bottom now"
        await chat.pilot.press("f6", "home")
        await chat.until(lambda: "question 0" in chat.screen)
        assert transcript.scroll_offset.y == 0


async def test_a_long_session_shows_its_end_first_and_the_rest_follows(tmp_path: Path) -> None:
    history = "|".join(f"question {number}" for number in range(400))
    async with chatting(tmp_path, session="s1", env={"PUPPET_HISTORY": history}) as chat:
        transcript = chat.view.transcript
        await chat.until(lambda: "heard question 399" in chat.screen)
        await chat.pilot.press("pageup")
        top = chat.screen.splitlines()[1:4]
        await chat.until(lambda: len(transcript.items) == 800)
        await chat.pilot.pause()
        assert chat.screen.splitlines()[1:4] == top, "nothing moves while the past is fetched"
        assert [line for line in transcript.lines() if line.startswith("▌")] == [
            f"▌ question {number}" for number in range(400)
        ]


async def test_the_screen_is_usable_at_any_size(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(80, 24)) as chat:
        await chat.ready()
        await chat.say("edit")
        await chat.question()
        for width, height in ((40, 15), (200, 60), (80, 24)):
            await chat.pilot.resize_terminal(width, height)
            await chat.until(lambda: "1  Allow once" in chat.screen and "3  Reject" in chat.screen)
        await chat.pilot.press("1")
        await chat.shows('"optionId": "yes"')


async def test_the_keys_are_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(100, 50)) as chat:
        await chat.pilot.press("f1")
        await chat.until(lambda: "Ctrl+R" in chat.screen and "a new line" in chat.screen)
        await chat.pilot.press("escape")
        await chat.until(lambda: "a new line" not in chat.screen)


async def test_another_theme_draws_everything_anew(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("say hello")
        await chat.shows("hello")
        before = chat.view.transcript.palette_now().text
        chat.app.theme = "textual-light"
        await chat.until(lambda: chat.view.transcript.palette.text != before)
        await chat.shows("hello")
