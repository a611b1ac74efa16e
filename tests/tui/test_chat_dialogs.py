"""Dialogs for requests of the agent: no key counts before a dialog was visible, and forms are validated."""

import os
import re
import signal
from pathlib import Path

import pytest
from tests.tui.chat import running_chat
from textual.widgets import Checkbox, Input

from accord.tui.chat_settings import ChatSettings
from accord.tui.permission_dialogs import PermissionDialog
from accord.tui.question_dialogs import FormDialog


async def test_a_permission_dialog_shows_all_options_and_a_number_chooses(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_for_dialog()
        assert isinstance(dialog, PermissionDialog)
        screen = await chat.wait_until(lambda: "3 r  Reject" in chat.screen and chat.screen)
        for text in ("run the tests of one", "$ pytest -q", "1 a  Allow once", "2 A  Always allow"):
            assert text in screen
        assert "a allow  A always allow  r reject  e reject, say what to do" in chat.screen
        await chat.pilot.press("3")
        await chat.wait_for_text('"optionId": "no"', "! You answered “Reject”: run the tests of one")


async def test_letters_answer_and_e_also_says_what_to_do_instead(tmp_path: Path) -> None:
    settings = ChatSettings(keys={"allow": "y"})
    async with running_chat(tmp_path, app={"settings": settings}) as chat:
        await chat.wait_ready()
        await chat.send("ask-many")
        first = await chat.wait_for_dialog()
        await chat.pilot.press("a", "R")  # `a` was changed to `y`; the agent does not offer to always reject
        assert not first.answer.done()
        await chat.pilot.press("y")
        await chat.wait_for_text("✓ You answered “Allow once”: run the tests of one")
        await chat.wait_until(lambda: chat.view.dialog is not first)
        await chat.wait_for_dialog()
        await chat.pilot.press("e")
        await chat.wait_for_text("! You answered “Reject”: run the tests of two")
        await chat.wait_until(lambda: chat.app.focused is chat.view.prompt.editor)
        assert "say what to do instead" in chat.screen


async def test_always_means_the_first_of_several_scopes(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask-scopes")
        await chat.wait_for_dialog()
        assert "2 A  Allow session" in chat.screen
        await chat.pilot.press("A")
        await chat.wait_for_text('"optionId": "session"')


async def test_a_change_is_side_by_side_from_160_columns(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(159, 40)) as chat:
        await chat.wait_ready()
        await chat.send("edit")
        await chat.wait_for_dialog()
        await chat.wait_until(lambda: "│ 2 +" not in chat.screen)
        await chat.pilot.resize_terminal(160, 40)
        await chat.wait_until(lambda: chat.screen.count("│ 2 +") == 2)  # in the question and the conversation


async def test_letters_of_a_prompt_that_is_being_written_are_no_answer(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        await chat.wait_until(lambda: chat.view.dialog)
        await chat.type("add")
        dialog = await chat.wait_for_dialog()
        await chat.pilot.press("a", "r")
        assert not dialog.answer.done()
        assert chat.view.prompt.editor.text == "addar"
        await chat.wait_until(lambda: "Tab answer the question  Esc stop" in chat.screen)
        await chat.pilot.press("tab", "a")
        await chat.wait_for_text('"optionId": "yes"')


async def test_keys_pressed_before_the_dialog_was_visible_go_to_the_prompt(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_until(lambda: chat.view.dialog)
        await chat.pilot.press("1", "enter")
        assert not dialog.answer.done()
        assert not dialog.armed
        assert [draft.text for draft in chat.view.queue.drafts] == ["1"]
        assert "allow" not in chat.text.partition("▌ ask")[2].lower().replace("allow_once", "")


async def test_a_dialog_waits_until_the_user_stops_typing(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_until(lambda: chat.view.dialog)
        await chat.wait_until(lambda: dialog._visible_since is not None)
        for char in "1111":
            await chat.clock.advance(0.3)
            await chat.pilot.press(char)
        assert not dialog.armed
        assert chat.view.prompt.editor.text == "1111"
        await chat.wait_for_dialog()
        await chat.wait_until(lambda: "Tab answer the question" in chat.screen)
        assert not dialog.answer.done()


async def test_no_option_is_preselected(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_for_dialog()
        await chat.pilot.press("enter", "space", "y", "9")
        assert not dialog.answer.done()
        await chat.pilot.press("up", "enter")
        await chat.wait_for_text('"optionId": "no"')


async def test_dialogs_are_shown_one_at_a_time(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask-many")
        first = await chat.wait_for_dialog()
        await chat.pilot.press("1")
        second = await chat.wait_until(lambda: chat.view.dialog is not first and chat.view.dialog)
        assert not second.armed
        await chat.wait_for_dialog()
        await chat.pilot.press("3")
        await chat.wait_for_text('one: {"outcome": {"optionId": "yes"', 'two: {"outcome": {"optionId": "no"')


async def test_an_edit_is_shown_as_a_full_diff(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("edit")
        await chat.wait_for_dialog()
        await chat.wait_until(lambda: "−     return 1" in chat.screen and "+     return 2" in chat.screen)


async def test_esc_cancels_the_turn_and_closes_the_dialog(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        await chat.wait_for_dialog()
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: chat.view.dialog is None)
        await chat.wait_ready()
        assert '"optionId"' not in chat.text


async def test_questions_of_the_client_name_accord_and_show_command_or_diff(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("before\n")
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("run touch made")
        await chat.wait_for_dialog()
        screen = await chat.wait_until(lambda: "Accord asks: may" in chat.screen and chat.screen)
        for text in ("run a command?", "$ touch made", f"in {tmp_path}"[:60]):
            assert text in screen
        await chat.pilot.press("escape")
        await chat.wait_ready()
        await chat.send(f"write {tmp_path}/made")
        await chat.wait_for_dialog()
        await chat.wait_until(lambda: "− before" in chat.screen and "+ written" in chat.screen)
        assert "write a file?" in chat.screen


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
@pytest.mark.parametrize("prompt", ["run touch made", "write {folder}/made", "form", "url", "question"])
async def test_stopping_the_turn_closes_every_kind_of_question(prompt: str, key: str, tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send(prompt.replace("{folder}", str(tmp_path)))
        dialog = await chat.wait_for_dialog()
        await chat.pilot.press(key)
        await chat.wait_until(lambda: chat.view.dialog is None)
        dialog.set_answer(getattr(dialog, "permission_options", [None])[0])  # too late
        await chat.wait_ready()
        await chat.wait_for_text("cancelled")
    assert not (tmp_path / "made").exists()


async def test_a_question_is_closed_when_the_agent_dies(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("run touch made")
        await chat.wait_for_dialog()
        pid = re.search(r"process (\d+)", chat.text)
        assert pid is not None
        os.kill(int(pid[1]), signal.SIGKILL)
        await chat.wait_until(lambda: chat.view.dialog is None)
    assert not (tmp_path / "made").exists()


async def test_a_form_is_validated_before_it_is_sent(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("form")
        dialog = await chat.wait_for_dialog()
        assert isinstance(dialog, FormDialog)
        await chat.type("ab")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "must have at least 3 characters" in chat.screen)
        await chat.type("c")
        count = dialog.fields["count"]
        assert isinstance(count, Input)
        count.value = "4"
        sure = dialog.fields["sure"]
        assert isinstance(sure, Checkbox)
        sure.value = True
        await chat.pilot.press("enter")
        await chat.wait_for_text(
            '"action": "accept"', '"colour": "red"', '"count": 4', '"name": "abc"', '"sure": true'
        )


async def test_a_url_is_shown_and_can_be_declined(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("url")
        await chat.wait_for_dialog()
        await chat.wait_until(lambda: "https://example.com/login?x=1" in chat.screen)
        await chat.pilot.press("2")
        await chat.wait_for_text('"action": "decline"')


async def test_an_ask_user_question_is_answered_by_number_or_text(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("question")
        await chat.wait_for_dialog()
        await chat.pilot.press("2", "enter")
        await chat.wait_for_text('{"answer": "blue"}')
        await chat.send("question")
        await chat.wait_for_dialog()
        await chat.type("green")
        await chat.pilot.press("enter")
        await chat.wait_for_text('{"answer": "green"}')


async def test_no_key_counts_when_the_answers_do_not_fit(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(30, 7)) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        dialog = await chat.wait_until(lambda: chat.view.dialog)
        await chat.wait_until(lambda: "make the window larger" in chat.screen)
        await chat.clock.advance(5)
        await chat.pilot.press("1")
        assert not dialog.armed
        assert not dialog.answer.done()
        await chat.pilot.resize_terminal(80, 24)
        await chat.wait_for_dialog()
        assert "make the window larger" not in chat.screen
        await chat.pilot.resize_terminal(30, 7)
        await chat.wait_until(lambda: not dialog.armed)
        assert not dialog.answer.done()


async def test_long_option_names_are_shown_in_full(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(80, 40)) as chat:
        await chat.wait_ready()
        await chat.send("ask-long 3")
        dialog = await chat.wait_for_dialog()
        await chat.wait_until(lambda: all(f"end {n}" in chat.screen for n in range(3)))
        row, line = next((at, line) for at, line in enumerate(chat.screen.splitlines()) if "end 1" in line)
        await chat.pilot.click(offset=(line.index("end 1"), row))
        await chat.wait_for_text('"optionId": "o1"')
        assert dialog.answer.done()


async def test_only_visible_options_can_be_chosen_in_a_long_list(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(180, 50)) as chat:
        await chat.wait_ready()
        await chat.send("ask-long 12")
        dialog = await chat.wait_for_dialog()
        await chat.wait_until(lambda: "3 more: use the arrow keys" in chat.screen)
        await chat.pilot.press("up")
        await chat.wait_until(lambda: "end 11" in chat.screen and "end 0" not in chat.screen)
        await chat.pilot.press("1")
        assert not dialog.answer.done()
        await chat.pilot.press("enter")
        await chat.wait_for_text('"optionId": "o11"')
