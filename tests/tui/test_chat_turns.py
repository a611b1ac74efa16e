"""Prompts and what comes of them: sent early, queued, cancelled, failed."""

from pathlib import Path

from tests.tui.chat import chatting


async def test_what_the_agent_says_is_shown_as_markdown(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("say # Title\n\nSome **bold** words and `code`.\n\n- one\n- two")
        await chat.shows("Title", "Some bold words and code.", "• one", "• two")
        assert "**" not in chat.text.split("▌")[-1].partition("\n\n")[2]
        await chat.shows("done")


async def test_a_prompt_sent_before_the_agent_is_there_waits_for_it(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.say("early")
        await chat.shows("heard early")


async def test_prompts_queue_while_a_turn_runs_and_go_out_in_order(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("ask")
        await chat.question()
        for text in ("first", "second"):
            chat.view.prompt.editor.focus()
            await chat.say(text)
        await chat.until(lambda: [draft.text for draft in chat.view.queue.drafts] == ["first", "second"])
        assert "next  first" in chat.screen
        chat.view.dialog.focus()  # pyright: ignore[reportOptionalMemberAccess]
        await chat.pilot.press("1")
        await chat.shows("heard first", "heard second")
        assert chat.text.index("heard first") < chat.text.index("heard second")


async def test_a_queued_prompt_can_be_taken_back_and_another_thrown_away(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("wait")
        await chat.shows("waiting")
        await chat.say("one")
        await chat.say("two")
        await chat.pilot.press("f7", "x", "enter")
        assert len(chat.view.queue) == 0
        assert chat.view.prompt.editor.text == "two"
        await chat.until(lambda: chat.app.focused is chat.view.prompt.editor)


async def test_esc_cancels_the_turn_and_holds_the_queue_back(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("wait")
        await chat.shows("waiting")
        await chat.say("later")
        await chat.pilot.press("escape")
        await chat.shows("cancelled")
        await chat.ready()
        assert chat.view.queue.held
        assert "held back  later" in chat.screen
        await chat.pilot.press("enter")
        await chat.shows("heard later")


async def test_an_error_of_the_agent_is_one_line_and_the_session_goes_on(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("fail")
        await chat.shows("the model is not reachable")
        await chat.ready()
        await chat.say("again")
        await chat.shows("heard again")


async def test_an_agent_that_cannot_be_started_is_told_of_in_the_screen(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["/no/such/agent"]) as chat:
        await chat.until(lambda: chat.phase == "failed")
        await chat.shows("/no/such/agent")
        assert "Ctrl+R tries again" in chat.screen


async def test_an_agent_that_dies_says_its_last_words_and_is_restarted_by_one_key(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("die")
        await chat.until(lambda: chat.phase == "dead")
        await chat.shows("The agent has ended", "the disk is full")
        await chat.type("not lost")
        await chat.pilot.press("enter")
        assert [draft.text for draft in chat.view.queue.drafts] == ["not lost"]
        await chat.pilot.press("ctrl+r")
        await chat.shows("heard before", "heard not lost")


async def test_a_session_is_taken_up_again_with_its_history(tmp_path: Path) -> None:
    async with chatting(tmp_path, session="s1", env={"PUPPET_HISTORY": "alpha|beta"}) as chat:
        await chat.ready()
        await chat.shows("alpha", "heard beta")


async def test_title_context_and_cost_stand_at_the_edges(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("title The great plan")
        await chat.until(lambda: "The great plan" in chat.screen.splitlines()[0])
        await chat.until(lambda: "50% of 100k" in chat.screen and "0.25 USD" in chat.screen)


async def test_the_plan_stands_above_the_prompt_or_beside_the_conversation(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ready()
        await chat.say("plan")
        await chat.until(lambda: "Plan 1/3" in chat.screen and "● change" in chat.screen)
        assert not chat.view.side_plan.display
        await chat.pilot.resize_terminal(150, 40)
        await chat.until(lambda: chat.view.side_plan.display)
        await chat.until(lambda: "Plan 1/3" in chat.screen)
        assert not chat.view.plan.display
