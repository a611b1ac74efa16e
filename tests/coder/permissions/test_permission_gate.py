"""Permission decisions: what runs, what is asked, what is denied, the audit, and "always" answers."""

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.coder.permissions.harness import (
    ALLOW,
    ALWAYS,
    NEVER,
    REJECT,
    TOOLS,
    FakeSandboxStatus,
    GateSession,
    connected,
    make_session,
)
from tests.coder.tools.harness import ToolHarness, until

from accord.agent import PermissionAnswer
from accord.coder.tools.tool import CallSubject, PreparedCall, ToolOutcome
from accord.policy import DecisionLog, Mode, Policy, read_permissions
from accord.schema import PermissionOption

MODES: tuple[Mode, ...] = ("read-only", "ask", "workspace-write", "full-access", "plan")


def write(path: str, content: str = "x") -> tuple[str, dict[str, str]]:
    return ("write_file", {"path": path, "content": content})


# -- modes ---------------------------------------------------------------------------------------------------


def tools_of(session: GateSession) -> ToolHarness:
    """Return the tools of a session, without its gate."""
    harness = ToolHarness(session.root)
    harness.context = session.context
    return harness


@pytest.mark.parametrize(
    ("call", "effects"),
    [
        (("read_file", {"path": "a.py"}), ["allow", "allow", "allow", "allow", "allow"]),
        (("plan", {"entries": []}), ["allow", "allow", "allow", "allow", "allow"]),
        (write("a.py"), ["deny", "ask", "allow", "allow", "deny"]),
        (("delete_file", {"path": "a.py"}), ["deny", "ask", "allow", "allow", "deny"]),
        (("bash", {"command": "ls"}), ["allow", "allow", "allow", "allow", "allow"]),
        (("bash", {"command": "make"}), ["deny", "ask", "ask", "allow", "deny"]),
        (("web_fetch", {"url": "https://example.com/x"}), ["ask", "ask", "ask", "allow", "ask"]),
        (("leave_plan_mode", {"plan": "do it"}), ["ask", "ask", "ask", "allow", "ask"]),
        (write("../elsewhere/x"), ["deny", "ask", "ask", "allow", "deny"]),
        (("read_file", {"path": "../elsewhere/x"}), ["ask", "ask", "ask", "allow", "ask"]),
        (("read_file", {"path": ".env"}), ["ask", "ask", "ask", "ask", "ask"]),
        (("read_file", {"path": "~/.ssh/id_rsa"}), ["ask", "ask", "ask", "ask", "ask"]),
        (("bash", {"command": "cat .env"}), ["ask", "ask", "ask", "ask", "ask"]),
        (("bash", {"command": "env"}), ["deny", "ask", "ask", "allow", "deny"]),
        (("bash", {"command": "git log --output=x"}), ["deny", "ask", "ask", "allow", "deny"]),
        (("bash", {"command": "rm -rf /"}), ["deny", "deny", "deny", "deny", "deny"]),
        (
            ("bash", {"command": "rm -rf a/../../../../../../../../.. --no-preserve-root"}),
            ["deny"] * 5,
        ),
        (("bash", {"command": ":(){ :|:& };:"}), ["deny", "deny", "deny", "deny", "deny"]),
    ],
)
async def test_decision_for_each_call_in_each_mode(
    tmp_path: Path, call: Any, effects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    name, arguments = call
    if name in ("read_file", "delete_file"):
        (session.root / Path(arguments["path"]).expanduser()).touch()
    found: list[str] = []
    for mode in MODES:
        session.mode = mode
        questions: list[Any] = []

        def no(
            options: list[PermissionOption], decision: Any, questions: list[Any] = questions
        ) -> PermissionAnswer:
            questions.append(decision)
            return PermissionAnswer(reason="cancelled")

        ruling = await session.ruling(name, no, **arguments)
        found.append("ask" if questions else "allow" if ruling.allowed else "deny")
        assert ruling.allowed or ruling.message.startswith("Permission denied.")
    assert found == effects
    assert [line["effect"] for line in session.audit_lines()] == effects


@pytest.mark.parametrize(("is_effective", "asks_user"), [(True, False), (False, True)])
async def test_workspace_write_runs_commands_without_asking_only_in_a_sandbox(
    tmp_path: Path, is_effective: bool, asks_user: bool
) -> None:
    session = make_session(
        tmp_path,
        mode="workspace-write",
        session_sandbox=FakeSandboxStatus(is_effective),
        sandbox=UnusedSandbox(),
    )
    if asks_user:
        assert "without a sandbox" in (await session.asked_decision("bash", command="make")).reason
    else:
        assert (await session.ruling("bash", command="make")).allowed
        assert session.audit_lines()[-1]["sandboxed"] is True
    assert "sandbox" in (await session.asked_decision("bash", command="make", outside_sandbox=True)).reason
    session.context = replace(session.context, sandbox=None)  # the tool did not get the sandbox
    assert "without a sandbox" in (await session.asked_decision("bash", command="make")).reason


class UnusedSandbox:
    """A sandbox whose commands are never started."""

    def wrap(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(argv=["/nonexistent"], env={}, cwd="/")


async def test_missing_required_sandbox_denies_commands(tmp_path: Path) -> None:
    session = make_session(
        tmp_path,
        mode="full-access",
        session_sandbox=FakeSandboxStatus(unavailable_reason="bwrap is not installed"),
    )
    ruling = await session.ruling("bash", command="ls")
    assert ruling.message == "Permission denied. bwrap is not installed. Tell the user."
    assert (await session.ruling("read_file", path="a.py")).allowed


async def test_read_only_external_tool_runs_without_asking(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    read_file: Any = TOOLS["read_file"]
    tool = replace(read_file, name="mcp__db__query", kind="other", category="external")

    async def run(_: Any) -> ToolOutcome:
        raise AssertionError

    call = PreparedCall(title="query", subject=CallSubject(), run=run)
    assert not (await session.rule(tool, call, REJECT)).allowed
    assert (await session.rule(tool, replace(call, subject=CallSubject(read_only=True)))).allowed


# -- text for the model --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "rules", "call", "expected_text"),
    [
        ("plan", {}, write("a.py"), "leave_plan_mode"),
        ("read-only", {}, write("a.py"), "Only the user can change the mode"),
        ("full-access", {}, ("bash", {"command": "rm -rf ~"}), "never run, in any mode"),
        (
            "ask",
            "none",
            write("a.py"),
            "the rules allow nothing else (mode ask). Find a way that the rules allow",
        ),
        (
            "full-access",
            {"deny": [{"command": "git push *"}]},
            ("bash", {"command": "git push origin main"}),
            "(deny rule 1 of config.toml (command git push *)). Find a way that the rules allow",
        ),
        ("full-access", {"deny": [{"path": "vendor/**"}]}, write("vendor/x"), "denied by a rule"),
    ],
)
async def test_denial_says_what_to_do(
    tmp_path: Path, mode: Mode, rules: Any, call: Any, expected_text: str
) -> None:
    session = make_session(tmp_path, mode=mode, rules=rules)
    ruling = await session.ruling(call[0], **call[1])
    assert not ruling.allowed
    assert ruling.message.startswith("Permission denied. ")
    assert expected_text in ruling.message
    assert "\n" not in ruling.message


async def test_reject_always_is_not_asked_again(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    assert not (await session.ruling("bash", NEVER, command="npm install")).allowed
    again = await session.ruling("bash", command="npm install left-pad")
    assert "refused this for the rest of the session" in again.message
    assert (await session.ruling("bash", ALLOW, command="npm test")).allowed


# -- allow always --------------------------------------------------------------------------------------------


async def test_allow_always_covers_the_subcommand_or_the_tool(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    assert (await session.ruling("bash", ALWAYS, command="npm test")).allowed
    assert (await session.ruling("bash", command="npm test -- --watch")).allowed
    assert await session.asked_decision("bash", command="npm install")
    assert await session.asked_decision("bash", command="npm test && make")
    for name in ("a.py", "b.py", ".env"):
        (session.root / name).write_text("a")
        await tools_of(session).done("read_file", path=name)
    assert (await session.ruling("edit_file", ALWAYS, path="a.py", old_text="a", new_text="b")).allowed
    assert (await session.ruling("edit_file", path="b.py", old_text="a", new_text="b")).allowed
    assert await session.asked_decision("write_file", path="b.py", content="")
    assert await session.asked_decision("edit_file", path=".env", old_text="a", new_text="b")


async def test_allow_always_settles_other_open_questions(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    async with connected(session) as editor:
        (session.root / "c").touch()
        turn = editor.prompt(write("a"), write("b"), ("delete_file", {"path": "c"}), together=True)
        questions = [await editor.asked() for _ in range(3)]
        by_file = {question["params"]["toolCall"]["title"].split()[-1]: question for question in questions}
        first, second, third = (by_file[name] for name in "abc")
        editor.answer(first, ALWAYS)
        withdrawn = await editor.client.raw.until_method("$/cancel_request")
        assert withdrawn["params"]["requestId"] == second["id"]
        editor.answer(third, REJECT)  # another tool, so its question is still open
        assert (await editor.end(turn))["stopReason"] == "end_turn"
    assert {path.name for path in session.root.iterdir()} == {"a", "b", "c"}
    assert [(line["tool"], line["effect"], line.get("answer")) for line in session.audit_lines()] == [
        ("write_file", "ask", "allow_always"),
        ("write_file", "allow", None),
        ("delete_file", "ask", "reject_once"),
    ]


async def test_reject_always_settles_other_open_questions(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    async with connected(session) as editor:
        turn = editor.prompt(write("a"), write("b"), together=True)
        first = await editor.asked()
        await editor.asked()
        editor.answer(first, NEVER)
        await editor.end(turn)
    assert not list(session.root.iterdir())
    assert [line["effect"] for line in session.audit_lines()] == ["ask", "deny"]


async def test_allowed_host_settles_open_questions_for_the_same_host(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    answers: list[asyncio.Future[PermissionAnswer]] = []

    async def ask(options: Any, decision: Any) -> PermissionAnswer:
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    fetch = TOOLS["web_fetch"]
    calls = [await fetch.prepare({"url": f"https://example.com/{n}"}, session.context) for n in range(3)]
    rulings = [asyncio.ensure_future(session.gate.ruling(fetch, call, ask)) for call in calls]
    await until(lambda: len(answers) == 3)
    answers[1].set_result(PermissionAnswer(PermissionOption("allow_once", "Allow", "allow_once"), "selected"))
    assert all(ruling.allowed for ruling in await asyncio.gather(*rulings))
    assert (answers[0].cancelled(), answers[2].cancelled()) == (True, True)


async def test_answer_counts_only_with_an_offered_id_and_its_kind(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for forged in (
        PermissionOption("reject_once", "Allow", "allow_once"),
        PermissionOption("yes", "Allow", "allow_once"),
        PermissionOption("allow_always", "Always", "allow_always"),  # not offered for this call
    ):
        answer = PermissionAnswer(forged, "selected")
        ruling = await session.ruling("bash", lambda *_, answer=answer: answer, command="rm x")
        assert not ruling.allowed


# -- mode change during a question ---------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "made"), [("workspace-write", True), ("read-only", False)])
async def test_mode_change_settles_an_open_question(tmp_path: Path, mode: Mode, made: bool) -> None:
    session = make_session(tmp_path)
    async with connected(session) as editor:
        turn = editor.prompt(write("a"))
        question = await editor.asked()
        session.mode = mode
        session.gate.reconsider()
        assert (await editor.client.raw.until_method("$/cancel_request"))["params"]["requestId"] == question[
            "id"
        ]
        await editor.end(turn)
    assert (session.root / "a").exists() is made


async def test_allow_is_ignored_when_the_mode_forbids_the_call_by_then(tmp_path: Path) -> None:
    session = make_session(tmp_path)

    def later(options: list[PermissionOption], decision: Any) -> PermissionAnswer:
        session.mode = "plan"  # without a call of reconsider()
        return PermissionAnswer(options[1], "selected")

    ruling = await session.ruling("write_file", later, path="a", content="")
    assert not ruling.allowed
    assert "plan mode changes nothing" in ruling.message
    session.mode = "ask"
    assert await session.asked_decision(
        "write_file", path="a", content=""
    )  # the "always" was not stored either


async def test_mode_change_keeps_a_question_that_still_needs_an_answer(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    (session.root / ".env").touch()
    async with connected(session) as editor:
        turn = editor.prompt(("read_file", {"path": ".env"}))
        question = await editor.asked()
        session.mode = "full-access"
        session.gate.reconsider()
        editor.answer(question, REJECT)
        await editor.end(turn)
        assert "$/cancel_request" not in editor.client.methods()
    assert not session.rulings[0].allowed


async def test_new_rules_settle_open_questions(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    async with connected(session) as editor:
        turn = editor.prompt(write("a"))
        await editor.asked()
        session.gate.policy = Policy(session.gate.policy.user, read_permissions({"deny": [{"path": "a"}]}))
        session.gate.reconsider()
        await editor.end(turn)
    assert "denied by a rule" in session.results[0]


# -- audit ---------------------------------------------------------------------------------------------------


async def test_each_decision_is_one_private_audit_line_without_secrets(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    await session.ruling("read_file", path="a.py")
    await session.ruling("bash", ALLOW, command="TOKEN=geheim make")
    answer = PermissionAnswer(None, "cancelled", message="use the key sk-abcdefghijklmnopqrstuvwx")
    await session.ruling("bash", lambda *_: answer, command="make")
    lines = session.audit_lines()
    assert [(line["session"], line["tool"], line["effect"]) for line in lines] == [
        ("sess_1", "read_file", "allow"),
        ("sess_1", "bash", "ask"),
        ("sess_1", "bash", "ask"),
    ]
    assert "geheim" not in json.dumps(lines)
    assert lines[2]["note"] == "use the key ***"
    assert stat.S_IMODE(session.audit.path.stat().st_mode) == 0o600
    assert not session.audit.path.is_relative_to(session.root)


async def test_nothing_runs_when_the_audit_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    session = make_session(tmp_path, mode="full-access")
    for call in (("read_file", {"path": "a.py"}), write("a.py")):
        ruling = await session.ruling(call[0], **call[1])
        assert not ruling.allowed
        assert "could not be written" in ruling.message
    session.mode = "ask"
    ruling = await session.ruling("write_file", ALWAYS, path="a.py", content="x")
    assert not ruling.allowed
    assert "Calls that cannot be logged do not run" in ruling.message
    assert await session.asked_decision(
        "write_file", path="a.py", content="x"
    )  # an "always" is not stored either
    no = await session.ruling("write_file", REJECT, path="a.py", content="x")
    assert "The user rejected" in no.message


async def test_audit_inside_the_project_denies_everything(tmp_path: Path) -> None:
    session = make_session(tmp_path, audit=DecisionLog(tmp_path / "project" / "decisions.jsonl"))
    assert "keep it outside" in (await session.ruling("read_file", path="a.py")).message


# -- search --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [{}, {"deny": [{"tool": "bash", "command": "rm *"}]}])
async def test_search_hides_secrets_and_files_outside_the_roots(tmp_path: Path, rules: Any) -> None:
    session = make_session(tmp_path, rules=rules)
    for name in ("a.py", ".env", "keys/server.pem"):
        (session.root / name).parent.mkdir(exist_ok=True)
        (session.root / name).write_text("needle")
    (session.root / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "x").write_text("needle")
    shown = {
        name: session.gate.may_show(str(session.root / name))
        for name in ("a.py", ".env", "keys/server.pem", "link/x")
    }
    assert shown == {"a.py": True, ".env": False, "keys/server.pem": False, "link/x": False}
    assert session.gate.may_show(str(tmp_path / "more" / "y"))


@pytest.mark.parametrize(
    "rule",
    [{"path": "private/**"}, {"path": "private/**", "kind": "read"}, {"path": "private/**", "tool": "grep"}],
)
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_search_hides_files_that_rules_restrict(tmp_path: Path, rule: Any, effect: str) -> None:
    session = make_session(tmp_path, rules={effect: [rule]})
    assert not session.gate.may_show(str(session.root / "private" / "x"))
    assert session.gate.may_show(str(session.root / "public" / "x"))


async def test_allowed_outside_folder_is_searchable_in_that_turn_only(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    outside = tmp_path / "elsewhere"
    assert not session.gate.may_show(str(outside / "x"))
    assert not (await session.ruling("grep", REJECT, pattern="x", path=str(outside))).allowed
    assert not session.gate.may_show(str(outside / "x"))
    assert (await session.ruling("grep", ALLOW, pattern="x", path=str(outside))).allowed
    assert session.gate.may_show(str(outside / "x"))
    assert not session.gate.may_show(str(outside / ".env"))
    session.gate.turn_started()
    assert not session.gate.may_show(str(outside / "x"))
