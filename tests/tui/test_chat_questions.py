"""What the agent asks: nothing counts before it could be seen, every option is there, forms are checked."""

from pathlib import Path

from tests.tui.chat import chatting
from textual.widgets import Checkbox, Input

from accord.tui.dialogs.form import FormDialog
from accord.tui.dialogs.permission import PermissionDialog


async def test_every_option_and_the_command_are_shown_and_a_number_chooses(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.question()
        assert isinstance(dialog, PermissionDialog)
        screen = await chat.until(lambda: "3  Reject" in chat.screen and chat.screen)
        for text in ("run the tests of one", "$ pytest -q", "1  Allow once", "2  Always allow"):
            assert text in screen
        await chat.pilot.press("3")
        await chat.shows('"optionId": "no"')


async def test_keys_pressed_before_the_question_was_seen_go_to_the_prompt(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.until(lambda: chat.view.dialog)
        await chat.pilot.press("1", "enter")
        assert not dialog.answer.done()
        assert not dialog.armed
        assert [draft.text for draft in chat.view.queue.drafts] == ["1"]
        assert "allow" not in chat.text.partition("▌ ask")[2].lower().replace("allow_once", "")


async def test_whoever_goes_on_typing_is_not_taken_by_surprise(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.until(lambda: chat.view.dialog)
        await chat.until(lambda: dialog._seen is not None)
        for char in "1111":
            await chat.clock.advance(0.3)
            await chat.pilot.press(char)
        assert not dialog.armed
        assert chat.view.prompt.editor.text == "1111"
        await chat.question()
        assert not dialog.answer.done()


async def test_nothing_is_preselected(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.question()
        await chat.pilot.press("enter", "space", "y", "9")
        assert not dialog.answer.done()
        await chat.pilot.press("up", "enter")
        await chat.shows('"optionId": "no"')


async def test_several_questions_wait_for_each_other(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask-many")
        first = await chat.question()
        await chat.pilot.press("1")
        second = await chat.until(lambda: chat.view.dialog is not first and chat.view.dialog)
        assert not second.armed
        await chat.question()
        await chat.pilot.press("3")
        await chat.shows('one: {"outcome": {"optionId": "yes"', 'two: {"outcome": {"optionId": "no"')


async def test_a_change_is_shown_in_full(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("edit")
        await chat.question()
        await chat.until(lambda: "−     return 1" in chat.screen and "+     return 2" in chat.screen)


async def test_esc_stops_the_turn_and_takes_the_question_away(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        await chat.question()
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.view.dialog is None)
        await chat.ready()
        assert '"optionId"' not in chat.text


async def test_a_form_is_checked_before_it_is_sent(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("form")
        dialog = await chat.question()
        assert isinstance(dialog, FormDialog)
        await chat.type("ab")
        await chat.pilot.press("enter")
        await chat.until(lambda: "must have at least 3 characters" in chat.screen)
        await chat.type("c")
        count = dialog.fields["count"]
        assert isinstance(count, Input)
        count.value = "4"
        sure = dialog.fields["sure"]
        assert isinstance(sure, Checkbox)
        sure.value = True
        await chat.pilot.press("enter")
        await chat.shows(
            '"action": "accept"', '"colour": "red"', '"count": 4', '"name": "abc"', '"sure": true'
        )


async def test_an_address_is_shown_and_can_be_declined(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("url")
        await chat.question()
        await chat.until(lambda: "https://example.com/login?x=1" in chat.screen)
        await chat.pilot.press("2")
        await chat.shows('"action": "decline"')


async def test_a_plain_question_is_answered_by_number_or_words(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("question")
        await chat.question()
        await chat.pilot.press("2", "enter")
        await chat.shows('{"answer": "blue"}')
        await chat.say("question")
        await chat.question()
        await chat.type("green")
        await chat.pilot.press("enter")
        await chat.shows('{"answer": "green"}')


async def test_where_the_answers_do_not_fit_no_key_counts(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(30, 7)) as chat:
        await chat.ready()
        await chat.say("ask")
        dialog = await chat.until(lambda: chat.view.dialog)
        await chat.until(lambda: "a larger window" in chat.screen)
        await chat.clock.advance(5)
        await chat.pilot.press("1")
        assert not dialog.armed
        assert not dialog.answer.done()
        await chat.pilot.resize_terminal(80, 24)
        await chat.question()
        assert "a larger window" not in chat.screen
        await chat.pilot.resize_terminal(30, 7)
        await chat.until(lambda: not dialog.armed)
        assert not dialog.answer.done()


async def test_long_names_of_answers_are_shown_to_their_end(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(80, 40)) as chat:
        await chat.ready()
        await chat.say("ask-long 3")
        dialog = await chat.question()
        await chat.until(lambda: all(f"end {n}" in chat.screen for n in range(3)))
        row, line = next((at, line) for at, line in enumerate(chat.screen.splitlines()) if "end 1" in line)
        await chat.pilot.click(offset=(line.index("end 1"), row))
        await chat.shows('"optionId": "o1"')
        assert dialog.answer.done()


async def test_more_answers_than_numbers_are_announced_and_only_seen_ones_count(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(180, 50)) as chat:
        await chat.ready()
        await chat.say("ask-long 12")
        dialog = await chat.question()
        await chat.until(lambda: "3 more: the arrows bring them" in chat.screen)
        await chat.pilot.press("up")
        await chat.until(lambda: "end 11" in chat.screen and "end 0" not in chat.screen)
        await chat.pilot.press("1")
        assert not dialog.answer.done()
        await chat.pilot.press("enter")
        await chat.shows('"optionId": "o11"')
