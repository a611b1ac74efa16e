"""The rehearsal model: what plain instructions make it do, with the tools it is given."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    ToolUse,
    assistant_message,
    note_message,
    result_message,
    text_of,
    tool_uses_of,
    user_message,
)
from accord.coder.models import (
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Stopped,
    TextDelta,
    ThoughtDelta,
    ToolSpec,
)
from accord.coder.models.rehearsal_model import RehearsalModel, answer, parse_steps

NAMES = (
    *("read_file", "list_files", "glob", "grep", "write_file", "edit_file", "bash"),
    *("web_fetch", "plan", "ask_user", "agent"),
)
TOOLS = [ToolSpec(name, "", {"type": "object"}) for name in NAMES]


def answer_to(*messages: Message, tools: Sequence[ToolSpec] = TOOLS) -> AssistantMessage:
    """Return the final message for a history."""
    *_, last = answer(ModelRequest("system", messages, tools))
    assert isinstance(last, Stopped)
    assert last.reason == ("tool_use" if tool_uses_of(last.message) else "end_turn")
    return last.message


def run_turn(prompt: str, **results: str) -> tuple[list[ToolUse], str]:
    """Run a whole turn in which every call gets a result. Returns the calls and the final text."""
    history: list[Message] = [user_message(prompt)]
    calls: list[ToolUse] = []
    while uses := tool_uses_of(message := answer_to(*history)):
        history.append(message)
        history += [result_message(use, results.get(use.name, f"did {use.name}")) for use in uses]
        calls += uses
    return calls, text_of(message)


@pytest.mark.parametrize(
    ("prompt", "tool", "arguments"),
    [
        ("read README.md", "read_file", {"path": "README.md"}),
        ("Please read the file `my notes.txt`.", "read_file", {"path": "my notes.txt"}),
        ("list src", "list_files", {"path": "src"}),
        ("list", "list_files", {"path": "."}),
        ("list ..", "list_files", {"path": ".."}),
        ("list the files in src.", "list_files", {"path": "src"}),
        ("find *.py", "glob", {"pattern": "*.py"}),
        ("search TODO", "grep", {"pattern": "TODO"}),
        ("search for def main in src", "grep", {"pattern": "def main", "path": "src"}),
        ("write notes.txt: hello", "write_file", {"path": "notes.txt", "content": "hello"}),
        (
            "write a.txt: one then two and three",
            "write_file",
            {"path": "a.txt", "content": "one then two and three"},
        ),
        ("write a.txt:\nx\ny\n", "write_file", {"path": "a.txt", "content": "x\ny\n"}),
        ("replace a with b in f.py", "edit_file", {"path": "f.py", "old_text": "a", "new_text": "b"}),
        (
            'replace "a with" with "" in f.py',
            "edit_file",
            {"path": "f.py", "old_text": "a with", "new_text": ""},
        ),
        ("run pytest -q", "bash", {"command": "pytest -q"}),
        ("RUN echo `date` then more", "bash", {"command": "echo `date` then more"}),
        ("fetch https://example.com/a.", "web_fetch", {"url": "https://example.com/a"}),
        ("ask: which colour?", "ask_user", {"question": "which colour?"}),
        ("delegate: count the files", "agent", {"prompt": "count the files"}),
    ],
)
def test_instruction_becomes_a_tool_call(prompt: str, tool: str, arguments: dict[str, Any]) -> None:
    message = answer_to(user_message(prompt))
    (use,) = tool_uses_of(message)
    assert (use.name, use.arguments) == (tool, arguments)
    assert text_of(message)


def test_plan_has_its_steps() -> None:
    (use,) = tool_uses_of(answer_to(user_message("plan: look; change ; ; test")))
    assert use.arguments == {
        "entries": [
            {"content": "look", "status": "pending"},
            {"content": "change", "status": "pending"},
            {"content": "test", "status": "pending"},
        ]
    }


def test_think_produces_thoughts_and_no_text() -> None:
    events = list(answer(ModelRequest("", [user_message("think: what if it rains today then list")], TOOLS)))
    thoughts = [event.text for event in events if isinstance(event, ThoughtDelta)]
    assert "".join(thoughts) == "what if it rains today"
    assert len(thoughts) > 1
    assert [use.name for use in events if isinstance(use, ToolUse)] == ["list_files"]


def test_steps_joined_by_then_run_in_order_and_are_summarized() -> None:
    calls, end = run_turn(
        "read a.txt then think: hm, then run ls -l, and then write b.txt: done", read_file="one\ntwo"
    )
    assert [use.name for use in calls] == ["read_file", "bash", "write_file"]
    assert [use.id for use in calls] == ["rehearsal-1", "rehearsal-2", "rehearsal-3"]
    assert end.startswith("Done.")
    assert "1. read a.txt: one (and 1 more line)" in end
    assert "3. write b.txt: done: did write_file" in end
    assert "no AI" in end


def test_read_only_steps_joined_by_and_are_one_answer() -> None:
    message = answer_to(user_message("read a.txt and read b.txt and list src then run ls"))
    assert [
        (use.name, use.arguments["path"]) for use in tool_uses_of(message) if isinstance(use.arguments, dict)
    ] == [
        ("read_file", "a.txt"),
        ("read_file", "b.txt"),
        ("list_files", "src"),
    ]
    assert len(run_turn("read a.txt and read b.txt then run ls")[0]) == 3


def test_quoted_text_is_not_split() -> None:
    calls, _ = run_turn('delegate: "read a then list b" then list')
    assert [use.arguments for use in calls] == [{"prompt": "read a then list b"}, {"path": "."}]


def test_failed_step_is_reported_and_the_rest_continues() -> None:
    first = answer_to(prompt := user_message("write a.txt: x then list"))
    (write,) = tool_uses_of(first)
    denied = result_message(write, "Permission denied.", failed=True)
    second = answer_to(prompt, first, denied)
    (listing,) = tool_uses_of(second)
    end = text_of(answer_to(prompt, first, denied, second, result_message(listing, "a\nb")))
    assert "1 of 2 failed" in end
    assert "write a.txt: x: failed: Permission denied." in end


def test_edit_that_needs_a_read_is_repeated_after_the_read() -> None:
    history: list[Message] = [user_message("replace a with b in f.py then list")]

    def step(text: str, failed: bool = False) -> ToolUse:
        message = answer_to(*history)
        (use,) = tool_uses_of(message)
        history.extend((message, result_message(use, text, failed=failed)))
        return use

    first = step("f.py exists but was not read; read it first with read_file", failed=True)
    read = step("a")
    again = step("Edited f.py.")
    then = step("f.py")
    assert [use.name for use in (first, read, again, then)] == [
        "edit_file",
        "read_file",
        "edit_file",
        "list_files",
    ]
    assert (read.arguments, again.arguments) == ({"path": "f.py"}, first.arguments)
    assert "1. replace a with b in f.py: Edited f.py." in text_of(answer_to(*history))


def test_missing_tool_is_reported_as_skipped() -> None:
    only_list = [tool for tool in TOOLS if tool.name == "list_files"]
    message = answer_to(user_message("write a.txt: x then list"), tools=only_list)
    (use,) = tool_uses_of(message)
    assert use.name == "list_files"
    end = text_of(
        answer_to(
            user_message("write a.txt: x then list"), message, result_message(use, "a"), tools=only_list
        )
    )
    assert "write a.txt: x: skipped because there is no tool `write_file`" in end


@pytest.mark.parametrize(
    "prompt", ["Hello!", "Why is the sky blue?", "read the code and explain it", "", "/nothing"]
)
def test_other_prompts_list_the_folder_and_explain_how_to_connect_a_model(prompt: str) -> None:
    calls, end = run_turn(prompt, list_files="README.md\nsrc/")
    assert [(use.name, use.arguments) for use in calls] == [("list_files", {"path": "."})]
    for word in (
        "no AI",
        "README.md",
        "src/",
        "--login",
        "--model provider:name",
        "ANTHROPIC_API_KEY",
        "`then`",
    ):
        assert word in end


def test_second_prompt_runs_its_own_steps_and_ids_continue() -> None:
    first = answer_to(user_message("list"))
    (use,) = tool_uses_of(first)
    history = [
        user_message("list"),
        first,
        result_message(use, "a"),
        assistant_message("Done."),
        user_message("read a"),
    ]
    (again,) = tool_uses_of(answer_to(*history))
    assert (again.id, again.name) == ("rehearsal-2", "read_file")


def test_messages_before_the_first_answer_join_the_prompt() -> None:
    first, second = user_message("read a"), user_message("list")
    assert [use.name for use in tool_uses_of(answer_to(first, note_message("Plan."), second))] == [
        "read_file"
    ]
    cancelled = note_message("The user cancelled the turn here.")
    assert [use.name for use in tool_uses_of(answer_to(first, cancelled, second))] == ["list_files"]


def test_note_of_the_agent_is_not_a_prompt() -> None:
    first = answer_to(user_message("list then read a"))
    (use,) = tool_uses_of(first)
    (then,) = tool_uses_of(
        answer_to(
            user_message("list then read a"),
            first,
            result_message(use, "a"),
            note_message("You said that before."),
        )
    )
    assert then.name == "read_file"


def test_instruction_may_follow_editor_context() -> None:
    (use,) = tool_uses_of(
        answer_to(user_message("[open file: a.py]", "read a.py", ImagePart(b"x", "image/png")))
    )
    assert use.arguments == {"path": "a.py"}


def test_without_tools_the_prompts_are_repeated() -> None:
    end = text_of(
        answer_to(
            user_message("fix the bug in a.py"), assistant_message("ok"), user_message("Summarise."), tools=()
        )
    )
    assert "- fix the bug in a.py" in end


async def test_stream_arrives_in_chunks_with_usage() -> None:
    model = RehearsalModel()
    events: list[ModelEvent] = [
        event async for event in model.stream(ModelRequest("s", [user_message("Hello")], TOOLS))
    ]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert events[-1] == Stopped("tool_use", answer_to(user_message("Hello")))
    (usage,) = [event for event in events if isinstance(event, RequestUsage)]
    assert (usage.cost, usage.input > 0, usage.output > 0) == (0.0, True, True)
    assert "".join(texts) == text_of(answer_to(user_message("Hello")))
    assert (model.provider, model.sees_images, model.context_size) == ("rehearsal", False, 100_000)


async def test_stream_yields_to_other_tasks_and_can_be_closed() -> None:
    stream = RehearsalModel().stream(ModelRequest("s", [user_message("Hello"), assistant_message("x")], ()))
    ran = asyncio.get_running_loop().create_future()
    first = await anext(stream)
    asyncio.get_running_loop().call_soon(ran.set_result, None)
    await anext(stream)
    assert isinstance(first, TextDelta)
    assert ran.done()
    await stream.aclose()


def test_oversized_request_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        list(answer(ModelRequest("s", [user_message("x" * 1000)], TOOLS), context_size=100))
    assert caught.value.kind == "context_full"


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=80)
    | st.lists(
        st.sampled_from(
            [
                "read",
                "list",
                "then",
                "and",
                "write",
                "a.txt",
                ":",
                "replace",
                "with",
                "in",
                "run",
                '"',
                "`",
                "plan:",
                ";",
                ".",
            ]
        ),
        max_size=14,
    ).map(" ".join)
)
def test_answers_are_deterministic(prompt: str) -> None:
    request = ModelRequest("s", [user_message(prompt)], TOOLS)
    assert list(answer(request)) == list(answer(request))
    assert len(run_turn(prompt)[0]) <= 14


def test_long_prompts_are_parsed_quickly() -> None:
    assert len(parse_steps("write a: " + "foo then read the bar " * 20_000)) == 1
    assert parse_steps("replace " + "x with y in " * 2_000) == []
    assert len(parse_steps(" then ".join(["list"] * 100))) == 100
    assert parse_steps(" then ".join(["list"] * 1000)) == []
