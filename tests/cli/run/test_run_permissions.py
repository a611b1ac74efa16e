"""`accord run` without a terminal: what rules allow, what is rejected, and the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.run_harness import RunHarness, RunResult, odd_agent

READ = {"kind": "read"}
EDIT = {"kind": "edit", "locations": [{"path": "a.txt"}]}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": "selected", "optionId": option}


def ask_permission(harness: RunHarness, call: Any, *words: str, options: Any = None) -> tuple[Any, RunResult]:
    """Return the answer that the agent got, and the result of the run."""
    more = [] if options is None else [json.dumps(options)]
    ran = harness.run("go", "--format", "quiet", *words, *odd_agent("permission", json.dumps(call), *more))
    return json.loads(ran.out), ran


def test_reading_is_allowed_once(harness: RunHarness) -> None:
    outcome, ran = ask_permission(harness, READ)
    assert (outcome, ran.code, ran.err) == (selected("yes"), 0, "")


@pytest.mark.parametrize(
    "call", [EDIT, {"kind": "execute", "rawInput": {"command": "ls"}}, {"kind": "other"}, {}]
)
def test_other_requests_are_rejected_with_a_note(harness: RunHarness, call: Any) -> None:
    outcome, ran = ask_permission(harness, call)
    assert (outcome, ran.code) == (selected("no"), 5)
    (line,) = ran.err.splitlines()
    assert line.startswith("accord run: refused: Do it: ")
    assert line.endswith("and there is no terminal to ask on (see --permissions)")


@pytest.mark.parametrize(
    "call",
    [
        {"kind": "Read"},
        {"kind": "file_read"},
        {"kind": "read", "locations": [{"path": "/etc/passwd"}]},
        {"kind": "read", "rawInput": {"file_path": ".env"}},
    ],
    ids=["wrong case", "unknown kind", "outside", "secret"],
)
def test_only_official_read_kinds_inside_the_folder_are_approved(harness: RunHarness, call: Any) -> None:
    (harness.cwd / ".env").write_text("KEY=1")
    outcome, ran = ask_permission(harness, call)
    assert (outcome, ran.code) == (selected("no"), 5)


def test_automatic_approval_never_selects_an_always_option(harness: RunHarness) -> None:
    always = [
        {"optionId": "ever", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    outcome, ran = ask_permission(harness, READ, "--permissions", "all", options=always)
    assert (outcome, ran.code) == (selected("no"), 5)
    assert "the agent does not offer `allow_once`" in ran.err


def test_a_rejection_selects_any_reject_option_or_else_cancels(harness: RunHarness) -> None:
    never = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "never", "name": "Never", "kind": "reject_always"},
    ]
    outcome, ran = ask_permission(harness, EDIT, options=never)
    assert (outcome, ran.code) == (selected("never"), 5)
    outcome, ran = ask_permission(harness, EDIT, options=never[:1])
    assert (outcome, ran.code) == ({"outcome": "cancelled"}, 5)


def test_permissions_all_none_and_ask(harness: RunHarness) -> None:
    outcome, ran = ask_permission(harness, EDIT, "--permissions", "all")
    assert (outcome, ran.code) == (selected("yes"), 0)
    outcome, ran = ask_permission(harness, READ, "--permissions", "none")
    assert (outcome, ran.code) == (selected("no"), 5)
    outcome, ran = ask_permission(harness, READ, "--permissions", "ask")
    assert (outcome, ran.code) == (selected("no"), 5)


def server(harness: RunHarness, behavior: str, *more: str, **settings: Any) -> None:
    _, command, *args = odd_agent(behavior, *more)
    harness.settings(servers={"mine": {"command": command, "args": args, **settings}}, defaultServer="mine")


def test_acp_json_rules_decide_by_kind_path_and_command(harness: RunHarness) -> None:
    calls = [
        EDIT,
        {"kind": "edit", "locations": [{"path": "deploy/a.txt"}]},
        {"kind": "execute", "rawInput": {"command": "npm test"}},
        {"kind": "execute", "rawInput": {"command": ["npm", "install", "x"]}},
        {"kind": "read", "rawInput": {"command": "npm publish"}},
    ]
    rules = {
        "allow": [{"kind": "edit"}, {"kind": "execute", "command": "npm test"}],
        "deny": [{"path": "deploy/**"}, {"command": "npm publish"}],
        "default": "reads",
    }
    server(harness, "permissions", *map(json.dumps, calls), permissions=rules)
    ran = harness.run("go", "--format", "quiet")
    answers = [json.loads(line)["optionId"] for line in ran.out.splitlines()]
    assert (answers, ran.code) == (["yes", "no", "yes", "no", "no"], 5)
    assert "is denied by a rule" in ran.err


def test_the_permissions_option_replaces_the_default_and_keeps_rules(harness: RunHarness) -> None:
    server(
        harness,
        "permissions",
        json.dumps(EDIT),
        json.dumps({"kind": "edit", "locations": [{"path": "deploy/a"}]}),
        permissions={"deny": [{"path": "deploy/**"}], "default": "none"},
    )
    ran = harness.run("go", "--format", "quiet", "--permissions", "all")
    assert [json.loads(line)["optionId"] for line in ran.out.splitlines()] == ["yes", "no"]


def test_the_non_interactive_policy_of_acp_json_is_used(harness: RunHarness) -> None:
    server(harness, "permission", json.dumps(EDIT), nonInteractivePolicy="accept_all")
    assert harness.run("go").code == 0


# -- files and terminals ---------------------------------------------------------------------------------


def requests(
    harness: RunHarness, *calls: tuple[str, Any], words: tuple[str, ...] = ()
) -> tuple[list[Any], RunResult]:
    texts = [json.dumps({"method": method, "params": params}) for method, params in calls]
    ran = harness.run("go", "--format", "quiet", *words, *odd_agent("requests", *texts))
    return [json.loads(line) for line in ran.out.splitlines()], ran


def read(path: Path) -> tuple[str, Any]:
    return "fs/read_text_file", {"path": str(path)}


def write(path: Path) -> tuple[str, Any]:
    return "fs/write_text_file", {"path": str(path), "content": "changed"}


def test_reading_is_allowed_but_writing_and_running_are_not(harness: RunHarness) -> None:
    (harness.cwd / "a.txt").write_text("hello")
    (got, *refused), ran = requests(
        harness,
        read(harness.cwd / "a.txt"),
        write(harness.cwd / "a.txt"),
        ("terminal/create", {"command": "touch", "args": ["made"]}),
    )
    assert got == {"result": {"content": "hello"}}
    assert all("Permission denied" in answer["error"]["message"] for answer in refused)
    assert ((harness.cwd / "a.txt").read_text(), (harness.cwd / "made").exists()) == ("hello", False)
    assert ran.code == 5
    assert [line.partition(":")[2].strip()[:20] for line in ran.err.splitlines()] == [
        "refused: write " + str(harness.cwd)[:5],
        "refused: run touch m",
    ]


@pytest.mark.rule("file.inside-roots")
def test_requests_outside_the_folders_fail_with_all_permissions(harness: RunHarness) -> None:
    (harness.cwd / "link").symlink_to("/etc")
    (harness.cwd / "file").symlink_to(harness.home.parent / "elsewhere")
    answers, ran = requests(
        harness,
        read(Path("/etc/passwd")),
        read(harness.cwd / "link" / "passwd"),
        write(harness.cwd / "file"),
        ("terminal/create", {"command": "ls", "cwd": "/"}),
        words=("--permissions", "all"),
    )
    assert all("outside the roots" in answer["error"]["message"] for answer in answers)
    assert not (harness.home.parent / "elsewhere").exists()
    assert ran.code == 0


def test_with_all_permissions_commands_run_without_api_keys(harness: RunHarness) -> None:
    command = odd_agent("writes-and-runs", str(harness.cwd / "new.txt"), "echo key=$OPENAI_API_KEY in $PWD")
    ran = harness.run(
        "go", "--format", "quiet", "--permissions", "all", *command, OPENAI_API_KEY="sk-1234567890"
    )
    assert ran.code == 0, ran.err
    assert (harness.cwd / "new.txt").read_text() == "changed"
    assert ran.out.split() == ["key=", "in", str(harness.cwd)]


def test_an_approved_tool_call_covers_its_file_write(harness: RunHarness) -> None:
    server(
        harness,
        "agreed",
        json.dumps({"kind": "edit", "locations": [{"path": str(harness.cwd / "a.txt")}]}),
        str(harness.cwd / "a.txt"),
        str(harness.cwd / "b.txt"),
        permissions={"allow": ["edit"], "ask": [{"path": "b.txt"}], "default": "reads"},
    )
    ran = harness.run("go", "--format", "quiet")
    assert (harness.cwd / "a.txt").read_text() == "changed"
    assert not (harness.cwd / "b.txt").exists()
    assert ran.code == 5


def test_repeated_rejections_do_not_flood_the_notes(harness: RunHarness) -> None:
    calls = [json.dumps({"kind": "edit", "title": f"change {number % 30}"}) for number in range(60)]
    ran = harness.run("go", "--format", "quiet", *odd_agent("permissions", *calls))
    notes = ran.err.splitlines()
    assert (len(notes), notes[-1]) == (21, "accord run: further notes of this kind are not shown")


def test_the_coding_agent_uses_its_own_modes(harness: RunHarness) -> None:
    ran = harness.run("--mode", "workspace-write", "write a.txt: hello")
    assert ran.code == 0, ran
    assert (harness.cwd / "a.txt").read_text() == "hello"
    ran = harness.run("write b.txt: hello")
    assert (ran.code, (harness.cwd / "b.txt").exists()) == (5, False)
