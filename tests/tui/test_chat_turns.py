"""Prompts: sent early, queued, cancelled, failed, and what the screen shows of them."""

from pathlib import Path

from tests.tui.chat import running_chat


async def test_the_answer_is_rendered_as_markdown(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("say # Title\n\nSome **bold** words and `code`.\n\n- one\n- two")
        await chat.wait_for_text("Title", "Some bold words and code.", "• one", "• two")
        assert "**" not in chat.text.split("▌")[-1].partition("\n\n")[2]
        await chat.wait_for_text("done")


async def test_a_prompt_sent_before_the_agent_is_ready_waits(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.send("early")
        await chat.wait_for_text("heard early")


async def test_prompts_are_queued_during_a_turn_and_sent_in_order(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("ask")
        await chat.wait_for_dialog()
        for text in ("first", "second"):
            chat.view.prompt.editor.focus()
            await chat.send(text)
        await chat.wait_until(lambda: [draft.text for draft in chat.view.queue.drafts] == ["first", "second"])
        await chat.wait_until(lambda: "next  first" in chat.screen)
        chat.view.dialog.focus()  # pyright: ignore[reportOptionalMemberAccess]
        await chat.pilot.press("1")
        await chat.wait_for_text("heard first", "heard second")
        assert chat.text.index("heard first") < chat.text.index("heard second")


async def test_enter_steers_the_turn_of_an_agent_that_supports_it(tmp_path: Path) -> None:
    async with running_chat(tmp_path, env={"DEMO_STEERING": "1"}) as chat:
        await chat.wait_ready()
        await chat.send("wait")
        await chat.wait_for_text("waiting")
        await chat.send("use tabs")
        await chat.wait_for_text("use tabs", "steered by use tabs.")
        await chat.send("/a command")
        chat.view.prompt.editor.write("for later")
        await chat.pilot.press("alt+q")
        await chat.wait_until(lambda: len(chat.view.queue) == 2)
        await chat.send("late")  # the turn ends before it arrives
        await chat.wait_for_text("heard /a command", "heard for later", "heard late")


async def test_queued_prompts_can_be_edited_and_deleted(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("wait")
        await chat.wait_for_text("waiting")
        await chat.send("one")
        await chat.send("two")
        await chat.pilot.press("f7", "x", "enter")
        assert len(chat.view.queue) == 0
        assert chat.view.prompt.editor.text == "two"
        await chat.wait_until(lambda: chat.app.focused is chat.view.prompt.editor)


async def test_esc_cancels_the_turn_and_pauses_the_queue(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("wait")
        await chat.wait_for_text("waiting")
        await chat.send("later")
        await chat.pilot.press("escape")
        await chat.wait_for_text("cancelled")
        await chat.wait_ready()
        assert chat.view.queue.paused
        await chat.wait_until(lambda: "paused  later" in chat.screen)
        await chat.pilot.press("enter")
        await chat.wait_for_text("heard later")


async def test_an_agent_error_is_one_line_and_the_session_continues(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("fail")
        await chat.wait_for_text("the model is not reachable")
        await chat.wait_ready()
        await chat.send("again")
        await chat.wait_for_text("heard again")


async def test_an_agent_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    async with running_chat(tmp_path, ["/no/such/agent"]) as chat:
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text("/no/such/agent")
        assert "Ctrl+R try again" in chat.screen


async def test_a_crashed_agent_shows_its_stderr_and_restarts_by_key(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("die")
        await chat.wait_until(lambda: chat.phase == "dead")
        await chat.wait_for_text("The agent has ended", "exited with code 7", "the disk is full")
        assert "its last stderr lines" not in chat.text, "stderr is shown below the reason"
        await chat.type("not lost")
        await chat.pilot.press("enter")
        assert [draft.text for draft in chat.view.queue.drafts] == ["not lost"]
        await chat.pilot.press("ctrl+r")
        await chat.wait_for_text("heard before", "heard not lost")


async def test_a_loaded_session_shows_its_history(tmp_path: Path) -> None:
    async with running_chat(tmp_path, session="s1", env={"DEMO_HISTORY": "alpha|beta"}) as chat:
        await chat.wait_ready()
        await chat.wait_for_text("alpha", "heard beta")


async def test_title_context_and_cost_are_shown(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("title The great plan")
        await chat.wait_until(lambda: "The great plan" in chat.screen.splitlines()[0])
        await chat.wait_until(lambda: "50% of 100k" in chat.screen and "0.25 USD" in chat.screen)


async def test_the_plan_is_above_the_prompt_or_beside_the_transcript(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.send("plan")
        await chat.wait_until(lambda: "Plan 1/3" in chat.screen and "● change" in chat.screen)
        assert not chat.view.side_plan.display
        await chat.pilot.resize_terminal(150, 40)
        await chat.wait_until(lambda: chat.view.side_plan.display)
        await chat.wait_until(lambda: "Plan 1/3" in chat.screen)
        assert not chat.view.plan.display


async def test_a_finished_plan_folds_and_can_be_unfolded(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(150, 40)) as chat:
        await chat.wait_ready()
        await chat.send("plan")
        await chat.wait_until(lambda: chat.view.side_plan.display)
        await chat.send("plan done")
        await chat.wait_until(lambda: "Plan 3/3  ✓ done" in chat.screen)
        assert not chat.view.side_plan.display, "the transcript must get the width back"
        await chat.pilot.press("ctrl+t")
        await chat.wait_until(lambda: chat.view.side_plan.display and "✓ change" in chat.screen)
        await chat.send("plan")
        await chat.wait_until(lambda: "Plan 1/3" in chat.screen and chat.view.side_plan.display)


async def test_notifications_do_not_cover_the_prompt(tmp_path: Path) -> None:
    async with running_chat(tmp_path, size=(80, 24), toasts=True) as chat:
        await chat.wait_ready()
        chat.app.notify("The prompt is not empty: Ctrl+C clears it, Ctrl+Q quits")
        await chat.wait_until(lambda: "is not empty" in chat.screen)
        shown = next(y for y, line in enumerate(chat.screen.split("\n")) if "is not empty" in line)
        assert 1 <= shown < 6, "below the title, above the newest text"


async def test_undo_redo_and_rewind_go_back_and_fill_the_prompt(tmp_path: Path) -> None:
    async with running_chat(tmp_path, env={"DEMO_REWIND": "1"}) as chat:
        await chat.wait_ready()
        for text in ("first", "second"):
            await chat.send(text)
            await chat.wait_for_text(f"heard {text}")
        await chat.send("/undo")
        await chat.wait_for_text("Conversation and files are back as before “first”.")
        await chat.wait_until(lambda: chat.view.prompt.draft.text == "first")
        assert "heard" not in chat.text
        chat.view.prompt.editor.write("")
        await chat.send("/redo")
        await chat.wait_for_text("Back as before the undo of “first”.", "heard first", "heard second")
        await chat.pilot.press("alt+u")
        await chat.wait_until(lambda: "Go back to before" in chat.screen and "1 file" in chat.screen)
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "1 file, +1 -2, 1 left out" in chat.screen)
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: chat.view.prompt.draft.text == "first")
        assert "heard" not in chat.text
