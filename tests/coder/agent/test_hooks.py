"""Hooks with Claude Code's contract: of the user, and of a project once it is trusted."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest
from tests.agent.agent_client import EVERYTHING, Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure, use
from tests.coder.agent.test_prompts_during_turn import steer

from accord.coder.hooks.background_hooks import MAX_BACKGROUND_HOOKS
from accord.coder.hooks.format_hook import FORMATTERS, formatter_for
from accord.coder.hooks.hook_config import HookSet
from accord.coder.model_history import UserMessage, text_of

SHOWS_NOTICES = {"session": EVERYTHING["session"]}


def hook(harness: AgentHarness, name: str, code: str) -> str:
    """Write a hook in Python and return its shell line. `event` is its input."""
    file = harness.home / f"{name}.py"
    file.write_text(f"import json, os, sys, time\nevent = json.load(sys.stdin)\n{code}\n")
    return f"{sys.executable} -S {file}"


def says(**answer: Any) -> str:
    """The code of a hook that prints this."""
    return f"print({json.dumps(answer)!r})"


def user_hooks(harness: AgentHarness, config: str = "", /, **events: Any) -> None:
    """Write hooks.json of the user. An event has one command, or its groups."""
    configure(harness, config + SANDBOX_OFF)
    (harness.home / "config" / "hooks.json").write_text(json.dumps(settings_of(events)))


def settings_of(events: dict[str, Any]) -> dict[str, Any]:
    groups = {
        event: [{"hooks": [{"type": "command", "command": value}]}] if isinstance(value, str) else value
        for event, value in events.items()
    }
    return {"hooks": groups}


def told(model: ScriptedModel) -> str:
    """Everything that the model was told, in its last request."""
    return repr(model.requests[-1].messages)


async def test_exit_code_2_blocks_the_call_and_tells_the_model_why(harness: AgentHarness) -> None:
    check = hook(
        harness,
        "check",
        "assert event['tool_name'] == 'Bash' and event['tool_input']['command'] == 'touch made'\n"
        "assert event['cwd'] == os.environ['CLAUDE_PROJECT_DIR'] and event['session_id']\n"
        "assert event['permission_mode'] == 'bypassPermissions'\n"
        "print('use the wrapper script', file=sys.stderr); sys.exit(2)",
    )
    user_hooks(harness, PreToolUse=[{"matcher": "Bash|Edit", "hooks": [{"command": check}]}])
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "use the wrapper script" in told(model)
    assert "use the wrapper script" in json.dumps(updates)
    assert not (harness.project / "made").exists()


async def test_every_reason_of_a_refusal_reaches_the_model(harness: AgentHarness) -> None:
    deny = {"permissionDecision": "deny", "permissionDecisionReason": "not on Fridays"}
    stop = "echo use the wrapper script >&2; exit 2"
    commands = [{"command": hook(harness, "deny", says(hookSpecificOutput=deny))}, {"command": stop}]
    user_hooks(harness, PreToolUse=[{"hooks": commands}])
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "use the wrapper script\\nnot on Fridays" in told(model)


async def test_allow_of_a_hook_grants_nothing(harness: AgentHarness) -> None:
    answer = says(hookSpecificOutput={"hookEventName": "PreToolUse", "permissionDecision": "allow"})
    user_hooks(harness, PreToolUse=hook(harness, "allow", answer))
    async with harness.client([use("bash", command="touch made")], mode="ask") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(prompt)
    assert not (harness.project / "made").exists()


async def test_ask_of_a_hook_asks_although_the_mode_allows(harness: AgentHarness) -> None:
    members = {"permissionDecision": "ask", "permissionDecisionReason": "it costs money"}
    user_hooks(harness, PreToolUse=hook(harness, "ask", says(hookSpecificOutput=members)))
    async with harness.client([use("bash", command="touch made")], mode="full-access") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        assert "a hook asks: it costs money" in json.dumps(question)
        choose(client, question, "allow_once")
        await client.turn_of(prompt)
    assert (harness.project / "made").exists()


async def test_changed_arguments_are_judged_by_the_policy(harness: AgentHarness) -> None:
    members = {"updatedInput": {"command": "rm -rf /"}, "permissionDecision": "allow"}
    user_hooks(harness, PreToolUse=hook(harness, "change", says(hookSpecificOutput=members)))
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "never run, in any mode" in told(model)
    assert not (harness.project / "made").exists()


async def test_hook_redirects_a_write_by_claude_codes_argument_name(harness: AgentHarness) -> None:
    code = (
        "event['tool_input']['file_path'] = event['tool_input']['file_path'].replace('a.txt', 'b.txt')\n"
        "print(json.dumps({'hookSpecificOutput': {'updatedInput': event['tool_input']}}))"
    )
    user_hooks(
        harness, PreToolUse=[{"matcher": "Write", "hooks": [{"command": hook(harness, "to_b", code)}]}]
    )
    async with harness.client(
        [use("write_file", path="a.txt", content="text")], mode="full-access"
    ) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert [file.name for file in harness.project.iterdir()] == ["b.txt"]


async def test_a_hook_that_guards_writes_guards_deletions_and_moves(harness: AgentHarness) -> None:
    code = (
        "if '.env' in event['tool_input']['file_path']: sys.exit(event['tool_name'] + ' of a guarded file')"
    )
    guard = [{"command": hook(harness, "guard", code), "onFailure": "block"}]
    late = [{"if": "Write(build/*)", "command": "echo 'not into build' >&2; exit 2"}]
    user_hooks(harness, PreToolUse=[{"matcher": "Edit|Write", "hooks": guard + late}])
    for name in (".env.example", "a.txt"):
        (harness.project / name).write_text("x")
    model = ScriptedModel(
        [use("delete_file", path=".env.example")],
        [use("move_file", source=".env.example", destination="b.txt")],
        [use("move_file", source="a.txt", destination="build/a.txt")],
    )
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert sorted(file.name for file in harness.project.iterdir()) == [".env.example", "a.txt"]
    for reason in ("delete_file of a guarded", "move_file of a guarded", "not into build"):
        assert reason in told(model)


async def test_post_tool_use_talks_to_the_model(harness: AgentHarness) -> None:
    after = hook(
        harness,
        "after",
        "assert 'hello' in event['tool_response']['content']\n"
        + says(decision="block", reason="run the tests", hookSpecificOutput={"additionalContext": "on ci"}),
    )
    failed = hook(harness, "failed", "print(event['error'][:4], file=sys.stderr); sys.exit(2)")
    user_hooks(harness, PostToolUse=after, PostToolUseFailure=failed)
    model = ScriptedModel([use("bash", command="echo hello")], [use("bash", command="echo oops; exit 3")])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "[hook] run the tests" in told(model)
    assert "[hook] on ci" in told(model)
    assert "[hook] oops" in told(model)


@pytest.mark.parametrize(
    "output", ["'no key here'", "{'content': 'no key here'}", "[event['tool_name'], 'no key here']"]
)
async def test_post_tool_use_replaces_the_result(harness: AgentHarness, output: str) -> None:
    code = f"print(json.dumps({{'hookSpecificOutput': {{'updatedToolOutput': {output}}}}}))"
    user_hooks(harness, PostToolUse=hook(harness, "redact", code))
    model = ScriptedModel([use("bash", command="echo key-$((40 + 2))")])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "no key here" in told(model)
    assert "key-42" not in told(model)


async def test_prompt_and_session_hooks_add_context_once_per_session(harness: AgentHarness) -> None:
    user_hooks(
        harness,
        SessionStart=[
            {"matcher": "startup", "hooks": [{"command": "echo branch main"}]},
            {"matcher": "resume", "hooks": [{"command": "echo resumed"}]},
        ],
        UserPromptSubmit=hook(harness, "prompt", "print('today:', event['prompt'])"),
    )
    model = ScriptedModel(["one"], ["two"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "first")
        await client.turn(session, "second")
    messages = model.requests[-1].messages
    first, second = [text_of(message) for message in messages if isinstance(message, UserMessage)]
    assert "[hook] branch main" in first
    assert "[hook] today: first" in first
    assert "branch main" not in second
    assert "[hook] today: second" in second


async def test_blocked_prompt_never_reaches_the_model(harness: AgentHarness) -> None:
    user_hooks(harness, UserPromptSubmit="echo no secrets here >&2; exit 2")
    model = ScriptedModel()
    async with harness.client(model=model, capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "the password is x")
    assert "no secrets here" in json.dumps(updates)
    assert model.requests == []


async def test_a_message_during_the_turn_passes_the_hooks_of_prompts(harness: AgentHarness) -> None:
    code = "if 'secret' in event['prompt']: sys.exit('no secrets')\nprint('checked')"
    group = {"hooks": [{"command": hook(harness, "check", code), "onFailure": "block"}]}
    user_hooks(harness, UserPromptSubmit=[group])
    began, sent = asyncio.Event(), asyncio.Event()

    async def work(request: Any) -> Any:
        began.set()
        await sent.wait()
        return ["working"]

    model = ScriptedModel(work)
    async with harness.client(model=model, capabilities=SHOWS_NOTICES) as client:
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session, "go")
        await began.wait()
        for text in ("a secret", "use tabs"):
            await client.raw.answer_to(steer(client, session, text))
        sent.set()
        updates, _ = await client.turn_of(prompt)
    assert "no secrets" in json.dumps(updates)
    assert "a secret" not in told(model)
    assert "use tabs" in told(model)
    assert told(model).count("[hook] checked") == 2


async def test_stop_hook_prolongs_the_turn_eight_times_at_most(harness: AgentHarness) -> None:
    code = "print(event['stop_hook_active'], event['last_assistant_message'], file=sys.stderr); sys.exit(2)"
    user_hooks(harness, Stop=hook(harness, "stop", code))
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        _, result = await client.turn(await client.new_session(harness.cwd), "go")
    assert result["stopReason"] == "end_turn"
    assert len(model.requests) == 9
    assert "False done" in told(model)
    assert "True done" in told(model)


async def test_continue_false_ends_the_turn(harness: AgentHarness) -> None:
    answer = says(**{"continue": False, "stopReason": "budget used up"})
    user_hooks(harness, PostToolUse=hook(harness, "stop", answer))
    model = ScriptedModel([use("bash", command="true")])
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "budget used up" in json.dumps(updates)
    assert len(model.requests) == 1


@pytest.mark.parametrize("interrupt", [False, True])
async def test_permission_hook_denies_before_the_user_is_asked(
    harness: AgentHarness, interrupt: bool
) -> None:
    decision = {"behavior": "deny", "message": "not on Fridays", "interrupt": interrupt}
    user_hooks(
        harness, PermissionRequest=hook(harness, "deny", says(hookSpecificOutput={"decision": decision}))
    )
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="ask", capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
        assert "session/request_permission" not in client.methods()
    assert "not on Fridays" in json.dumps(updates)
    assert len(model.requests) == (1 if interrupt else 2)
    assert interrupt or "not on Fridays" in told(model)


async def test_a_slow_notification_delays_no_question(harness: AgentHarness) -> None:
    user_hooks(harness, Notification="sleep 600")
    async with harness.client([use("bash", command="touch made")], mode="ask") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "allow_once")
        await client.turn_of(prompt)
    assert (harness.project / "made").exists()


async def test_half_of_a_character_reaches_hooks(harness: AgentHarness) -> None:
    check = (
        "print(ascii(event['last_assistant_message']), file=sys.stderr)\n"
        "sys.exit(0 if event['stop_hook_active'] else 2)"
    )
    user_hooks(harness, Stop=hook(harness, "check", check))
    model = ScriptedModel(["half \ud83d"])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "half \\\\ud83d" in told(model)


async def test_hooks_know_which_subagent_acts(harness: AgentHarness) -> None:
    agents = harness.home / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "finder.md").write_text("---\ndescription: Finds\n---\nFind.\n")
    seen = harness.home / "seen"
    note = hook(
        harness,
        "note",
        "names = ('hook_event_name', 'agent_type', 'tool_name', 'stop_hook_active')\n"
        "found = [event[name] for name in names if name in event]\n"
        f"print(*found, event.get('agent_id', '')[:0], file=open({str(seen)!r}, 'a'))",
    )
    groups = [{"matcher": "finder", "hooks": [{"command": note}]}]
    user_hooks(
        harness,
        SubagentStart=[{"hooks": [{"command": f"{note}; echo look twice"}]}],
        SubagentStop=groups,
        PreToolUse=[{"matcher": "Agent|Read", "hooks": [{"command": note}]}],
    )
    delegated = [use("agent", description="d", prompt="p", agent=name) for name in ("finder", None)]
    look = [use("read_file", path="a.txt")]
    model = ScriptedModel(delegated[:1], look, ["found"], delegated[1:], look, ["found"])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "[hook] look twice" in repr(model.requests[1].messages)
    assert [line.strip() for line in seen.read_text().splitlines()] == [
        "PreToolUse Task",
        "SubagentStart finder",
        "PreToolUse finder Read",
        "SubagentStop finder False",
        "PreToolUse Task",
        "SubagentStart general-purpose",
        "PreToolUse general-purpose Read",
    ]


async def test_session_hooks_are_told_of_a_fork_and_a_compaction(harness: AgentHarness) -> None:
    start = "import json, sys; event = json.load(sys.stdin); print(event['source'], event['model'])"
    seen = harness.home / "summary"
    user_hooks(
        harness,
        SessionStart=f'{sys.executable} -S -c "{start}"',
        PostCompact=[{"matcher": "manual", "hooks": [{"command": f"cat > {seen}"}]}],
    )
    looks = [[use("bash", command=f"seq {number} {number}000")] for number in range(4)]
    model = ScriptedModel(*looks, ["done"], ["A summary."], context_size=60_000)
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "go")
        assert "[hook] startup openai:scripted" in told(model)
        await client.turn(session, "/compact")
        await client.turn(session, "go on")
        assert "[hook] compact openai:scripted" in told(model)
        assert "A summary." in json.loads(seen.read_text())["compact_summary"]
        fork = await client.call("session/fork", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        await client.turn(fork["sessionId"], "hello")
        assert "[hook] fork openai:scripted" in told(model)


async def test_hooks_are_listed_and_can_be_trusted_later(harness: AgentHarness) -> None:
    user_hooks(harness, PreToolUse=[{"matcher": "Bash", "hooks": [{"command": "true", "args": ["a b"]}]}])
    file = harness.project / ".accord" / "hooks.json"
    file.parent.mkdir()
    file.write_text(json.dumps(settings_of({"UserPromptSubmit": "echo of the project"})))
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session, "/hooks")
        choose(client, await client.asked("session/request_permission"), "reject_once")
        shown = json.dumps(await client.turn_of(prompt))
        assert "- PreToolUse of `Bash`: `true 'a b'` (" in shown
        assert "- `.accord/hooks.json`" in shown
        prompt = client.prompt(session, "/hooks trust")
        choose(client, await client.asked("session/request_permission"), "allow_always")
        shown = json.dumps(await client.turn_of(prompt))
        assert "- UserPromptSubmit: `echo of the project` (.accord/hooks.json)" in shown
        await client.turn(session, "go")
        assert "nothing to trust" in json.dumps(await client.turn(session, "/hooks trust"))
    assert "[hook] of the project" in told(model)


async def test_hooks_read_the_transcript_of_the_session(harness: AgentHarness) -> None:
    copies = harness.home / "copies"
    copies.mkdir()
    code = (
        "path = event['transcript_path']; text = open(path).read()\n"
        f"name = {str(copies)!r} + '/' + event['hook_event_name'] + str(len(os.listdir({str(copies)!r})))\n"
        "lines = [json.loads(line) for line in text.splitlines()]\n"
        "mode = oct(os.stat(path).st_mode & 0o777)\n"
        "json.dump({'path': path, 'mode': mode, 'lines': lines}, open(name, 'w'))"
    )
    reads = hook(harness, "reads", code)
    user_hooks(harness, PreToolUse=reads, Stop=reads, SessionEnd=reads)
    half = "half \ud83d"
    model = ScriptedModel([half, use("write_file", path="a.txt", content="x")])
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a.txt")
        await client.turn(session, "thanks")
    seen = {file.name: json.loads(file.read_text()) for file in sorted(copies.iterdir())}
    assert list(seen) == ["PreToolUse0", "SessionEnd3", "Stop1", "Stop2"]
    path = Path(seen["Stop1"]["path"])
    assert path == harness.home / "data" / "transcripts" / f"{session}.jsonl"
    assert seen["Stop1"]["mode"] == "0o600"
    assert not path.exists(), "it ends with the session"
    assert seen["PreToolUse0"]["lines"] == seen["Stop1"]["lines"][:2]
    contents = [line["message"]["content"] for line in seen["SessionEnd3"]["lines"]]
    asked, [text, call], [result], done, *_ = contents
    assert asked == [{"type": "text", "text": "make a.txt"}]
    assert text == {"type": "text", "text": half}
    assert (call["name"], call["input"]["file_path"]) == ("Write", "a.txt")
    assert (result["tool_use_id"], result["is_error"]) == (call["id"], False)
    assert done == [{"type": "text", "text": "done"}]
    roles = [line["type"] for line in seen["SessionEnd3"]["lines"]]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant"]


# -- faults --------------------------------------------------------------------------------------------------


async def test_failing_hooks_are_shown_and_block_only_if_told_to(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "hidden-value")
    user_hooks(
        harness,
        PreToolUse=[
            {
                "matcher": "Bash",
                "hooks": [
                    {"command": "echo $SECRET_API_KEY broken >&2; exit 1"},
                    {"command": "/does/not/exist", "args": []},
                    {"command": "echo '{not json'"},
                    {"command": "sleep 600 & sleep 600", "timeout": 0.2},
                    {"command": "head -c 300000 /dev/zero | tr '\\0' x; echo"},
                ],
            },
            {"matcher": "Write", "hooks": [{"command": "exit 7", "onFailure": "block"}]},
        ],
    )
    model = ScriptedModel(
        [use("bash", command="touch made")], [use("write_file", path="blocked.txt", content="")]
    )
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    shown = json.dumps(updates)
    assert [file.name for file in harness.project.iterdir()] == ["made"]
    assert "exited with code 1: broken" in shown
    for reason in ("/does/not/exist", "invalid JSON", "did not end within 0.2 s", "exited with code 7"):
        assert reason in shown
    assert "hidden-value" not in shown


async def test_a_transcript_that_cannot_be_written_is_reported_and_hooks_run(harness: AgentHarness) -> None:
    user_hooks(harness, UserPromptSubmit=hook(harness, "path", "print(repr(event['transcript_path']))"))
    (harness.home / "data").mkdir(exist_ok=True)
    (harness.home / "data" / "transcripts").write_text("in the way")
    model = ScriptedModel()
    async with harness.client(model=model, capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "no transcript for hooks: " in json.dumps(updates)
    assert "[hook] ''" in told(model)


async def test_cancel_ends_a_running_hook_with_its_children(harness: AgentHarness) -> None:
    pipe = harness.home / "pipe"
    os.mkfifo(pipe)
    user_hooks(harness, PreToolUse=f"(echo started; exec sleep 600) > {pipe} & wait")
    async with harness.client([use("bash", command="true")], mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session)
        with await asyncio.to_thread(pipe.open) as output:
            assert output.readline() == "started\n"
            client.cancel(session)
            _, result = await client.turn_of(prompt)
            assert await asyncio.to_thread(output.read) == "", "ends once the child has ended"
    assert result["stopReason"] == "cancelled"


@pytest.mark.parametrize("name", [".claude/settings.json", ".accord/hooks.json"])
async def test_project_hooks_run_only_once_trusted(harness: AgentHarness, name: str) -> None:
    configure(harness, SANDBOX_OFF)
    file = harness.project / name
    file.parent.mkdir()
    file.write_text(json.dumps(settings_of({"PostToolUse": "echo ran >> hook.log"})))
    script = [use("bash", command="true")]
    async with harness.client(script, mode="full-access") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        assert "hook.log" in json.dumps(question), "the user sees the hooks before trusting them"
        choose(client, question, "reject_once")
        await client.turn_of(prompt)
    assert not (harness.project / "hook.log").exists()
    async with harness.client(script, mode="full-access") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "allow_always")
        await client.turn_of(prompt)
    assert (harness.project / "hook.log").read_text() == "ran\n"
    file.write_text(json.dumps(settings_of({"PostToolUse": "echo changed >> hook.log"})))
    async with harness.client(script, mode="full-access") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(prompt)
    assert (harness.project / "hook.log").read_text() == "ran\n"


async def test_a_script_that_the_agent_changed_is_not_run(harness: AgentHarness) -> None:
    script = harness.project / "check.sh"
    script.write_text("exit 0\n")
    user_hooks(harness, PreToolUse="sh $CLAUDE_PROJECT_DIR/check.sh")
    evil = "touch ran-outside\n"
    model = ScriptedModel(
        [use("write_file", path="check.sh", content=evil)], [use("bash", command="touch made")]
    )
    model.script.insert(0, [use("read_file", path="check.sh")])
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        assert "its script check.sh has changed" in json.dumps(question)
        choose(client, question, "reject_once")
        await client.turn_of(prompt)
        notices = json.dumps(client.updates_of("notice"))
    assert "check.sh has changed since the session began, so it was not run" in notices
    assert sorted(file.name for file in harness.project.iterdir()) == ["check.sh"]


async def test_a_pipe_in_the_place_of_a_script_or_a_file_holds_up_nothing(harness: AgentHarness) -> None:
    """As a command in the sandbox could leave them."""
    script = harness.project / "check.sh"
    script.write_text("exit 0\n")
    user_hooks(harness, PreToolUse="sh $CLAUDE_PROJECT_DIR/check.sh")
    replace = use("bash", command="rm check.sh && mkfifo check.sh .prettierrc")
    model = ScriptedModel([replace], [use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        assert "its script check.sh has changed" in json.dumps(question)
        choose(client, question, "reject_once")
        await client.turn_of(prompt)
    [prettier] = [one for one in FORMATTERS if one.name == "prettier"]
    assert prettier.refusal(str(harness.project / "a.js")) == ".prettierrc cannot be read"
    os.mkfifo(harness.home / "pipe")
    hooks_file = harness.home / "config" / "hooks.json"
    hooks_file.unlink()
    hooks_file.symlink_to(harness.home / "pipe")
    async with harness.client(["done"], capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "hooks.json: cannot be read (it is not a regular file)" in json.dumps(updates)


async def test_settings_without_hooks_ask_nothing(harness: AgentHarness) -> None:
    (harness.project / ".claude").mkdir()
    (harness.project / ".claude" / "settings.json").write_text('{"model": "x"}')
    async with harness.client(["done"]) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
        assert "session/request_permission" not in client.methods()


@pytest.mark.parametrize("broken", ["{broken", '{"hooks":' + "[" * 30_000])
async def test_broken_files_are_named_and_the_rest_works(harness: AgentHarness, broken: str) -> None:
    configure(harness, SANDBOX_OFF + '[[hooks.UserPromptSubmit]]\nhooks = [{command = "echo mine"}]\n')
    (harness.home / "config" / "hooks.json").write_text(broken)
    model = ScriptedModel()
    async with harness.client(model=model, capabilities=SHOWS_NOTICES) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "hooks.json: not valid JSON" in json.dumps(updates)
    assert "[hook] mine" in told(model)


def test_unusable_entries_are_explained() -> None:
    found = HookSet()
    found.add(
        {
            "Nonsense": [],
            "PreToolUse": [
                {"matcher": "(", "hooks": []},
                {"hooks": [{"type": "prompt", "prompt": "?"}]},
                {"hooks": [{"command": "x", "timeout": -1}]},
                {
                    "matcher": "mcp__.*",
                    "hooks": [
                        {"command": 3},
                        {"command": "x", "if": "Bash(git"},
                        {"command": "ok", "if": "Bash(git:*)", "timeout": 86_400},
                    ],
                },
            ],
        },
        "hooks.json",
    )
    assert [problem.partition(" is not")[0][:60] for problem in found.problems] == [
        "hooks.json: there is no hook event Nonsense",
        "hooks.json: hooks.PreToolUse[0].matcher: not a regular expre",
        "hooks.json: hooks.PreToolUse[1]: type 'prompt'",
        "hooks.json: hooks.PreToolUse[2]: Expected `float` > 0.0 - at",
        "hooks.json: hooks.PreToolUse[3]: Expected `str`, got `int` -",
        "hooks.json: hooks.PreToolUse[3].if: 'Bash(git'",
    ]
    [usable] = found.hooks
    assert usable.timeout == 3600
    assert usable.matches(["mcp__jira__get"])
    assert not usable.matches(["bash", "Bash"])
    assert not usable.fits_call(["edit_file", "Edit"], {"path": "git"}, "/project")


@pytest.mark.parametrize(
    ("condition", "arguments", "fits"),
    [
        ("Bash(git:*)", {"command": "git push"}, True),
        ("Bash(git push*)", {"command": "cd sub && git push origin $BRANCH"}, True),
        ("Bash(git push*)", {"command": "sudo bash -c 'true; git push'"}, True),
        ("Bash(git push*)", {"command": "$TOOL push"}, True),  # what runs is not certain
        ("Bash(git push*)", {"command": "git push 'open quote"}, True),
        ("Bash(git push*)", {"command": "echo 'git push' && git status"}, False),
        ("Bash(git:*)", {"command": "ls"}, False),
        ("Edit(src/*)", {"path": "/project/src/a.py", "file_path": "/project/src/a.py"}, True),
        ("Edit(src/*)", {"path": "docs/../src/a.py", "file_path": "/project/src/a.py"}, True),
        ("Edit(src/*)", {"path": "docs/a.md", "file_path": "/project/docs/a.md"}, False),
    ],
)
def test_a_condition_fits_every_form_of_a_call(condition: str, arguments: dict[str, Any], fits: bool) -> None:
    found = HookSet()
    found.add({"PreToolUse": [{"hooks": [{"command": "x", "if": condition}]}]}, "hooks.json")
    [hook] = found.hooks
    names = ["bash", "Bash"] if "command" in arguments else ["edit_file", "Edit"]
    assert hook.fits_call(names, arguments, "/project") is fits


# -- formatting ----------------------------------------------------------------------------------------------


async def test_format_setting_formats_an_edited_file(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    configure(harness, SANDBOX_OFF + "[hooks]\nformat = true\n")
    model = ScriptedModel(
        [use("write_file", path="a.py", content="x = {'a':1}\n")],
        [use("edit_file", path="a.py", old_text='"a": 1', new_text='"a": 2')],
        [use("write_file", path="b.py", content="x = (\n")],
    )
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert (harness.project / "a.py").read_text() == 'x = {"a": 2}\n'
    assert "ruff changed the file" in told(model)
    assert "ruff could not format it" in told(model)


@pytest.mark.parametrize(
    ("name", "content", "refused"),
    [
        (".prettierrc", "# ours\nsemi: false\nparser: babel\n", False),
        (".prettierrc", '{"overrides": [{"files": "*.md", "options": {"parser": "markdown"}}]}', False),
        (".prettierrc.toml", "semi = false\n", False),
        ("package.json", '{"name": "a", "prettier": {"semi": false, "parser": "babel"}}', False),
        ("package.json", '{"description": "no \\"plugins\\" of prettier!"}', False),
        (".prettierrc", '"./evil.cjs"', True),
        (".prettierrc", "--- ./evil.cjs\n", True),
        (".prettierrc", '"a: ./evil.cjs"', True),
        (".prettierrc", '{"plug\\u0069ns": ["./evil.cjs"]}', True),
        (".prettierrc", "pluginSearchDirs: [.]\n", True),
        (".prettierrc", "parser: >\n  ./evil\n", True),
        (".prettierrc", "semi: false\n" + " " * 2_100_000 + "\nplugins: [./evil.cjs]\n", True),
        ("prettier.config.mjs", "", True),
        ("package.json", '{"prettier": "./evil.cjs"}', True),
        ("package.json", '{"prettier": {"plug\\u0069ns": ["./evil.cjs"]}}', True),
        ("package.yaml", "prettier: ./evil.cjs\n", True),
    ],
)  # fmt: skip
def test_prettier_runs_only_with_settings_that_are_data(
    tmp_path: Path, name: str, content: str, refused: bool
) -> None:
    (tmp_path / name).write_text(content)
    [prettier] = [one for one in FORMATTERS if one.name == "prettier"]
    reason = prettier.refusal(str(tmp_path / "src" / "a.js"))
    assert (reason is not None and name in reason) == refused


def test_no_formatter_of_a_relative_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "gofmt"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"bin{os.pathsep}")
    assert formatter_for("/project/a.go") is None
    found = formatter_for("/project/a.go", (), f"bin{os.pathsep}{program.parent}")
    assert found is not None
    assert found[1] == str(program)
    assert formatter_for("/project/a.go", [str(tmp_path)], str(program.parent)) is None


async def test_no_program_of_the_project_runs_outside_the_sandbox(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an active virtual environment, into which a command in the sandbox may have written."""
    folder, ran = harness.project / ".venv" / "bin", harness.home / "ran"
    folder.mkdir(parents=True)
    for name in ("ruff", "rg", "git", "bash"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    user_hooks(harness, "[hooks]\nformat = true\n", PreToolUse="true")
    model = ScriptedModel(
        [use("write_file", path="a.py", content="x = ( 1 )\n"), use("grep", pattern="x", path="a.py")]
    )
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "a.py" in told(model)
    assert not ran.exists()


# -- in the background ---------------------------------------------------------------------------------------

ASYNC = """print('{"async": true}', flush=True)\n"""


def waits_for(gate: Path) -> str:
    """The code of a hook that goes on once the test writes to this pipe."""
    return f"open({str(gate)!r}).read()\n"


def pipe(harness: AgentHarness, name: str = "gate") -> Path:
    path = harness.home / name
    os.mkfifo(path)
    return path


def both_ends(path: Path) -> TextIO:
    """Open a pipe to read; it also counts as a writer."""
    return open(os.open(path, os.O_RDWR))


async def wait_until_shown(client: Client, text: str) -> None:
    if text not in json.dumps(client.updates()):
        await client.raw.until(lambda message: text in json.dumps(message))


async def let_go_on(gate: Path) -> None:
    await asyncio.to_thread(gate.write_text, "")


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
@pytest.mark.parametrize("form", ["output", "async", "asyncRewake"])
async def test_a_background_hook_decides_nothing_and_tells_the_model_later(
    harness: AgentHarness, event: str, form: str
) -> None:
    gate = pipe(harness)
    members = {
        "permissionDecision": "deny",
        "updatedInput": {"command": "touch other"},
        "updatedToolOutput": "replaced",
        "additionalContext": "see log.txt",
    }
    late = says(systemMessage="tests failed", hookSpecificOutput=members)
    code = (ASYNC if form == "output" else "") + waits_for(gate) + late
    command = {"command": hook(harness, "late", code), **({} if form == "output" else {form: True})}
    user_hooks(harness, **{event: [{"matcher": "Bash", "hooks": [command]}]})
    model = ScriptedModel([use("bash", command="echo first > made")])
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "go")
        assert [file.name for file in harness.project.iterdir()] == ["made"], "the call waited for the hook"
        assert "tests failed" not in told(model)
        await let_go_on(gate)
        await wait_until_shown(client, "tests failed")
        await client.turn(session, "and now?")
    assert "[hook] tests failed\\nsee log.txt" in told(model)
    assert "replaced" not in told(model)
    assert [file.name for file in harness.project.iterdir()] == ["made"]


async def test_a_running_turn_hears_of_a_background_hook(harness: AgentHarness) -> None:
    gate = pipe(harness)
    code = waits_for(gate) + "print('2 tests failed', file=sys.stderr); sys.exit(2)"
    tests = {"command": hook(harness, "tests", code), "asyncRewake": True}
    user_hooks(harness, PostToolUse=[{"matcher": "Bash", "hooks": [tests]}])
    ended = asyncio.Event()

    async def work(request: Any) -> Any:
        await let_go_on(gate)
        await ended.wait()
        return [use("list_files")]

    model = ScriptedModel([use("bash", command="true")], work)
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        await wait_until_shown(client, "2 tests failed")
        ended.set()
        await client.turn_of(prompt)
    assert told(model).count("[hook] 2 tests failed") == 1


@pytest.mark.parametrize("also", [{"async": True}, {"async": False}, {"async": 1}, {"asyncTimeout": 5}])
async def test_only_the_request_alone_makes_a_hook_go_on(harness: AgentHarness, also: dict[str, Any]) -> None:
    user_hooks(harness, PreToolUse=hook(harness, "refuse", says(**also, decision="block", reason="not here")))
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert not (harness.project / "made").exists()
    assert "not here" in told(model)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("sys.exit('broken')", "exited with code 1: broken"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("time.sleep(600)", "did not end within 0.2 s"),
        ("print('{' + 'x' * 300_000)", "more than 65,536 bytes"),
        ("print('{no json')", "invalid JSON"),
        ("print('no', file=sys.stderr); sys.exit(2)", ": no"),
    ],
)
async def test_a_failing_background_hook_is_shown_in_one_line(
    harness: AgentHarness, code: str, shown: str
) -> None:
    start = """print('{"async": true, "asyncTimeout": 200}', flush=True)\n""" if "sleep" in code else ASYNC
    user_hooks(harness, PostToolUse=[{"hooks": [{"command": hook(harness, "fails", start + code)}]}])
    model = ScriptedModel([use("bash", command="true")])
    async with harness.client(model=model, mode="full-access", capabilities=SHOWS_NOTICES) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "go")
        await wait_until_shown(client, shown)
        await client.turn(session, "more")
    assert "[hook]" not in told(model)


async def test_a_background_hook_outlives_the_turn_and_ends_with_the_session(harness: AgentHarness) -> None:
    output, seen = pipe(harness), harness.home / "seen"
    code = ASYNC + (
        f"output = open({str(output)!r}, 'w')\n"
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'], stdout=output)\n"
        "print('started', file=output, flush=True); child.wait()"
    )
    end = hook(harness, "end", ASYNC + f"open({str(seen)!r}, 'w').write(event['hook_event_name'])")
    last = {"command": end, "async": True}
    user_hooks(harness, UserPromptSubmit=hook(harness, "starts", code), SessionEnd=[{"hooks": [last]}])
    async with harness.client(model=ScriptedModel()) as client:
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session)
        with await asyncio.to_thread(output.open) as lines:
            assert lines.readline() == "started\n"
            await client.turn_of(prompt)
            await client.call("session/close", {"sessionId": session})
            assert await asyncio.to_thread(lines.read) == "", "ends once the child has ended"
    assert seen.read_text() == "SessionEnd", "the end of a session waits for its hooks"


async def test_no_more_than_twenty_hooks_run_in_the_background(harness: AgentHarness) -> None:
    gate, log = pipe(harness), pipe(harness, "log")
    code = f"gate = open({str(gate)!r}); open({str(log)!r}, 'w').write('started\\n'); gate.read()"
    late = {"command": hook(harness, "late", code), "async": True}
    user_hooks(harness, PostToolUse=[{"hooks": [late]}])
    names = [f"{number}.txt" for number in range(MAX_BACKGROUND_HOOKS + 1)]
    for name in names:
        (harness.project / name).write_text("x")
    model = ScriptedModel([use("read_file", path=name) for name in names])
    async with harness.client(model=model) as client:
        closed, started = both_ends(gate), both_ends(log)
        prompt = client.prompt(await client.new_session(harness.cwd))
        for _ in names:
            await asyncio.to_thread(started.readline)
        assert len(model.requests) == 1, "one hook is waited for"
        started.close()
        closed.close()  # the hooks go on
        await client.turn_of(prompt)
