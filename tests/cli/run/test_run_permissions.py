"""`accord run` without a terminal: what is allowed by rules, what is refused, and what that makes of the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.running import Place, Ran, odd

READ = {"kind": "read"}
EDIT = {"kind": "edit", "locations": [{"path": "a.txt"}]}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": "selected", "optionId": option}


def asked(place: Place, call: Any, *words: str, options: Any = None) -> tuple[Any, Ran]:
    """What the agent was answered, and how the run went."""
    more = [] if options is None else [json.dumps(options)]
    ran = place.run("go", "--format", "quiet", *words, *odd("permission", json.dumps(call), *more))
    return json.loads(ran.out), ran


def test_without_a_terminal_reading_is_allowed_once(place: Place) -> None:
    outcome, ran = asked(place, READ)
    assert (outcome, ran.code, ran.err) == (selected("yes"), 0, "")


@pytest.mark.parametrize(
    "call", [EDIT, {"kind": "execute", "rawInput": {"command": "ls"}}, {"kind": "other"}, {}]
)
def test_without_a_terminal_the_rest_is_rejected_and_told(place: Place, call: Any) -> None:
    outcome, ran = asked(place, call)
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
    ids=["a kind that is none", "another one", "outside", "a secret"],
)
def test_only_an_official_kind_and_the_own_folders_are_approved_by_themselves(
    place: Place, call: Any
) -> None:
    (place.cwd / ".env").write_text("KEY=1")
    outcome, ran = asked(place, call)
    assert (outcome, ran.code) == (selected("no"), 5)


def test_what_approves_by_itself_never_picks_an_always(place: Place) -> None:
    always = [
        {"optionId": "ever", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    outcome, ran = asked(place, READ, "--permissions", "all", options=always)
    assert (outcome, ran.code) == (selected("no"), 5)
    assert "the agent does not offer to allow it just once" in ran.err


def test_a_refusal_picks_whatever_rejects_and_cancels_only_without(place: Place) -> None:
    never = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "never", "name": "Never", "kind": "reject_always"},
    ]
    outcome, ran = asked(place, EDIT, options=never)
    assert (outcome, ran.code) == (selected("never"), 5)
    outcome, ran = asked(place, EDIT, options=never[:1])
    assert (outcome, ran.code) == ({"outcome": "cancelled"}, 5)


def test_all_and_none_are_what_they_say(place: Place) -> None:
    outcome, ran = asked(place, EDIT, "--permissions", "all")
    assert (outcome, ran.code) == (selected("yes"), 0)
    outcome, ran = asked(place, READ, "--permissions", "none")
    assert (outcome, ran.code) == (selected("no"), 5)
    outcome, ran = asked(place, READ, "--permissions", "ask")
    assert (outcome, ran.code) == (selected("no"), 5)


def server(place: Place, behaviour: str, *more: str, **settings: Any) -> None:
    _, command, *args = odd(behaviour, *more)
    place.settings(servers={"mine": {"command": command, "args": args, **settings}}, defaultServer="mine")


def test_rules_of_acp_json_decide_by_kind_path_and_command(place: Place) -> None:
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
    server(place, "permissions", *map(json.dumps, calls), permissions=rules)
    ran = place.run("go", "--format", "quiet")
    answers = [json.loads(line)["optionId"] for line in ran.out.splitlines()]
    assert (answers, ran.code) == (["yes", "no", "yes", "no", "no"], 5)
    assert "is denied by a rule" in ran.err


def test_the_flag_takes_the_place_of_the_default_and_rules_stay(place: Place) -> None:
    server(
        place,
        "permissions",
        json.dumps(EDIT),
        json.dumps({"kind": "edit", "locations": [{"path": "deploy/a"}]}),
        permissions={"deny": [{"path": "deploy/**"}], "default": "none"},
    )
    ran = place.run("go", "--format", "quiet", "--permissions", "all")
    assert [json.loads(line)["optionId"] for line in ran.out.splitlines()] == ["yes", "no"]


def test_the_word_for_where_nobody_is_there_counts(place: Place) -> None:
    server(place, "permission", json.dumps(EDIT), nonInteractivePolicy="accept_all")
    assert place.run("go").code == 0


# -- files and terminals ----------------------------------------------------------------------------------------


def requests(place: Place, *asked: tuple[str, Any], words: tuple[str, ...] = ()) -> tuple[list[Any], Ran]:
    sent = [json.dumps({"method": method, "params": params}) for method, params in asked]
    ran = place.run("go", "--format", "quiet", *words, *odd("requests", *sent))
    return [json.loads(line) for line in ran.out.splitlines()], ran


def read(path: Path) -> tuple[str, Any]:
    return "fs/read_text_file", {"path": str(path)}


def write(path: Path) -> tuple[str, Any]:
    return "fs/write_text_file", {"path": str(path), "content": "changed"}


def test_reading_in_the_folder_is_offered_writing_and_running_are_not_allowed_by_that(place: Place) -> None:
    (place.cwd / "a.txt").write_text("hello")
    (got, *refused), ran = requests(
        place,
        read(place.cwd / "a.txt"),
        write(place.cwd / "a.txt"),
        ("terminal/create", {"command": "touch", "args": ["made"]}),
    )
    assert got == {"result": {"content": "hello"}}
    assert all("Permission denied" in answer["error"]["message"] for answer in refused)
    assert ((place.cwd / "a.txt").read_text(), (place.cwd / "made").exists()) == ("hello", False)
    assert ran.code == 5
    assert [line.partition(":")[2].strip()[:20] for line in ran.err.splitlines()] == [
        "refused: write " + str(place.cwd)[:5],
        "refused: run touch m",
    ]


@pytest.mark.rule(245)
def test_nothing_leads_out_of_the_folders_whatever_is_allowed(place: Place) -> None:
    (place.cwd / "link").symlink_to("/etc")
    (place.cwd / "file").symlink_to(place.home.parent / "elsewhere")
    answers, ran = requests(
        place,
        read(Path("/etc/passwd")),
        read(place.cwd / "link" / "passwd"),
        write(place.cwd / "file"),
        ("terminal/create", {"command": "ls", "cwd": "/"}),
        words=("--permissions", "all"),
    )
    assert all("outside the roots" in answer["error"]["message"] for answer in answers)
    assert not (place.home.parent / "elsewhere").exists()
    assert ran.code == 0


def test_with_all_the_agent_writes_and_runs_and_commands_have_no_keys(place: Place) -> None:
    command = odd("writes-and-runs", str(place.cwd / "new.txt"), "echo key=$OPENAI_API_KEY in $PWD")
    ran = place.run(
        "go", "--format", "quiet", "--permissions", "all", *command, OPENAI_API_KEY="sk-1234567890"
    )
    assert ran.code == 0, ran.err
    assert (place.cwd / "new.txt").read_text() == "changed"
    assert ran.out.split() == ["key=", "in", str(place.cwd)]


def test_what_was_agreed_to_by_a_tool_call_is_not_refused_when_it_is_done(place: Place) -> None:
    server(
        place,
        "agreed",
        json.dumps({"kind": "edit", "locations": [{"path": str(place.cwd / "a.txt")}]}),
        str(place.cwd / "a.txt"),
        str(place.cwd / "b.txt"),
        permissions={"allow": ["edit"], "ask": [{"path": "b.txt"}], "default": "reads"},
    )
    ran = place.run("go", "--format", "quiet")
    assert (place.cwd / "a.txt").read_text() == "changed"
    assert not (place.cwd / "b.txt").exists()
    assert ran.code == 5


def test_an_agent_that_asks_on_and_on_does_not_flood_the_notes(place: Place) -> None:
    calls = [json.dumps({"kind": "edit", "title": f"change {number % 30}"}) for number in range(60)]
    ran = place.run("go", "--format", "quiet", *odd("permissions", *calls))
    notes = ran.err.splitlines()
    assert (len(notes), notes[-1]) == (21, "accord run: more of that follows, which is not told")


def test_the_agent_of_this_package_works_without_a_detour(place: Place) -> None:
    """It is on this machine and asks by itself: its own modes count."""
    ran = place.run("--mode", "workspace-write", "write a.txt: hello")
    assert ran.code == 0, ran
    assert (place.cwd / "a.txt").read_text() == "hello"
    ran = place.run("write b.txt: hello")
    assert (ran.code, (place.cwd / "b.txt").exists()) == (5, False)
