"""`accord sessions` as a user meets it: the sessions of an agent, and what was recorded of them where it cannot tell."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import in_terminal

from accord.client.recording import Records
from accord.schema import AgentMessageChunk, TextContent
from accord.session import SessionOpened, TurnEnded, TurnStarted
from accord.store import open_store
from accord.testing.hostile import hostile_command

KEEPER = str(Path(__file__).parent / "agents" / "keeper.py")


class Desk:
    """A user with a home of their own, a project, and an agent that keeps sessions, called `keeper`."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.calls_file = folder / "calls"
        for made in (self.home / "config", self.home / "data", self.project):
            made.mkdir(parents=True)
        self.env = {
            **os.environ,
            "ACCORD_HOME": str(self.home),
            "KEEPER_FOLDER": str(self.project),
            "KEEPER_CALLS": str(self.calls_file),
            "TZ": "Asia/Tokyo",
        }
        self.agent("keeper", sys.executable, KEEPER)

    def agent(self, name: str, *command: str, **env: str) -> None:
        """Put an agent into the user's acp.json."""
        file = self.home / "config" / "acp.json"
        known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"servers": {}}
        known["servers"][name] = {"command": command[0], "args": list(command[1:]), "env": env}
        known["defaultServer"] = "keeper"
        file.write_text(json.dumps(known))

    def accord(self, *words: str, code: int = 0) -> str:
        """What it printed; `said` is its stderr. Nothing of either may steer a terminal."""
        ran = subprocess.run(
            [sys.executable, "-m", "accord.cli", *words],
            cwd=self.project, env=self.env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.said = ran.stderr
        assert ran.returncode == code, ran.stderr
        for text in (ran.stdout, ran.stderr):
            assert all(char.isprintable() or char == "\n" for char in text), text
        return ran.stdout

    def sessions(self, *words: str, code: int = 0) -> str:
        return self.accord("sessions", *words, code=code)

    def calls(self, method: str) -> list[Any]:
        """The parameters of every call of this method."""
        lines = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [line["params"] for line in lines if line["method"] == method]

    def record(self, agent: str, session_id: str, *said: str, cwd: str | None = None) -> None:
        """A session that this client drove."""
        store = open_store(self.home / "data" / "client.db")
        key = f"{agent}/{session_id}"
        where = cwd or str(self.project)
        store.create(key, where, agent=agent)
        with store.journal(key) as journal:
            journal.append(SessionOpened(session_id, where), TurnStarted([TextContent("Recorded?")]))
            journal.append(*(AgentMessageChunk(TextContent(words), f"m{words}") for words in said))
            journal.append(TurnEnded("end_turn", "end_turn"))
        store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# -- list ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule(121, 122)
def test_the_list_is_the_agents_own_page_by_page_with_titles_and_local_times(desk: Desk) -> None:
    assert desk.sessions("list").splitlines() == [
        "aaa-1  2026-08-01 19:00  First red <U+202E>back<U+202C>",
        "aaa-2  yesterday",
        "bbb-3  -                 Third",
    ]
    assert desk.said == ""
    assert desk.calls("session/list") == [
        {"cwd": str(desk.project)},
        {"cwd": str(desk.project), "cursor": "2"},
    ]


def test_all_are_those_of_every_folder(desk: Desk) -> None:
    lines = desk.sessions("list", "--all").splitlines()
    assert lines[-1].split() == ["ccc-4", "-", "/elsewhere", "Fourth"]
    assert desk.calls("session/list")[0] == {}


def test_the_list_for_programs(desk: Desk) -> None:
    listed = json.loads(desk.sessions("list", "--json"))
    assert listed[0]["title"] == "First \x1b[31mred\x1b[0m \u202eback\u202c"
    assert listed[2] == {
        "agent": "keeper",
        "sessionId": "bbb-3",
        "cwd": str(desk.project),
        "additionalDirectories": ["/lib"],
        "title": "Third",
        "updatedAt": None,
        "archived": False,
        "source": "agent",
    }


@pytest.mark.rule(116)
def test_an_agent_that_cannot_list_leaves_what_was_recorded(desk: Desk) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list,load")
    desk.record("keeper", "r-1", "Yes.")
    desk.record("other", "r-2", "No.")
    desk.record("keeper", "r-3", "Far away.", cwd="/elsewhere")
    assert desk.sessions("list").split()[0] == "r-1"
    assert desk.said == "accord sessions: keeper cannot list its sessions; these were recorded here\n"
    assert [line.split()[0] for line in desk.sessions("list", "--all").splitlines()] == ["r-3", "r-1"]
    assert desk.calls("session/list") == []


def test_what_was_recorded_needs_no_agent(desk: Desk) -> None:
    desk.record("keeper", "r-1", "Yes.")
    desk.record("gone", "r-2", "No.")
    lines = desk.sessions("list", "--recorded").splitlines()
    assert [(line.split()[0], line.split()[3]) for line in lines] == [("r-2", "gone"), ("r-1", "keeper")]
    assert desk.sessions("list", "--recorded", "-a", "gone").split()[0] == "r-2"
    assert "No." in desk.sessions("show", "r-2", "--recorded")
    assert not desk.calls_file.exists()


def test_an_agent_that_does_not_start_leaves_what_was_recorded_and_is_an_error_without(desk: Desk) -> None:
    desk.agent("keeper", *hostile_command("dies-at-start"))
    desk.sessions("list", code=3)
    assert "the disk is full" in desk.said
    desk.record("keeper", "r-1", "Yes.")
    assert desk.sessions("list").split()[0] == "r-1"
    assert "exited with code 7" in desk.said
    assert "Yes." in desk.sessions("show", "r")


def test_a_list_that_never_ends_is_a_broken_protocol(desk: Desk) -> None:
    desk.agent("keeper", *hostile_command("endless-list"))
    desk.sessions("list", code=3)
    assert "the list has no end" in desk.said


def test_no_sessions_are_no_error(desk: Desk) -> None:
    assert desk.sessions("list", "--cwd", "/") == ""
    assert desk.said == "accord sessions: no sessions of /; --all shows those of every folder\n"


# -- which one ----------------------------------------------------------------------------------------------------


def test_a_beginning_is_enough_if_only_one_session_has_it(desk: Desk) -> None:
    assert desk.sessions("show", "bbb").splitlines()[0] == "session:   bbb-3"
    desk.sessions("show", "aaa", code=2)
    assert desk.said == (
        "accord sessions: 'aaa' could be any of aaa-1 (First red <U+202E>back<U+202C>), aaa-2: "
        "give more of the id\n"
    )
    desk.sessions("show", "zzz", code=2)
    assert desk.said == "accord sessions: no session of keeper has an id that begins with 'zzz'\n"
    desk.sessions("show", "", code=2)


def test_a_whole_id_is_itself_although_others_begin_with_it(desk: Desk) -> None:
    desk.record("keeper", "bbb-33", "Longer.")
    desk.record("other", "bbb-3", "Of somebody else.")
    assert desk.sessions("show", "bbb-3").splitlines()[1] == "title:     Third"
    desk.sessions("show", "bbb", "--recorded", code=2)
    assert desk.said.endswith(
        "could be any of other: bbb-3, keeper: bbb-33: give more of the id, or name the agent with -a\n"
    )
    desk.record("keeper", "bbb-3", "The same id.")
    desk.sessions("show", "bbb-3", "--recorded", code=2)
    assert desk.said.endswith("could be any of keeper: bbb-3, other: bbb-3: name the agent with -a\n")
    desk.record("keeper", "ccc-1", "One.")
    desk.record("keeper", "ccc-2", "Two.")
    desk.sessions("show", "ccc", "--recorded", code=2)
    assert desk.said.endswith("could be any of ccc-2, ccc-1: give more of the id\n")


# -- show and export ----------------------------------------------------------------------------------------------

MARKDOWN = """\
## You

Make it *better*

## Agent

<details>
<summary>Thought</summary>

Hm &lt;/details> `x`

</details>

**Plan**

- [x] Look
- [ ] Edit \\<b\\> *(in progress)*

**✓ Edit a.py red \\<U+202E\\>back\\<U+202C\\>** (edit)

```diff
--- /w/a.py
+++ /w/a.py
@@ -1,2 +1,2 @@
 one
-two
+2
```

**✗ pytest** (execute, failed)

```
1 failed
```

**○ Search** (ended without a result)

Input:

```json
{
  "q": "x"
}
```

# Done

**All** of it. red <U+202E>back<U+202C>
"""


@pytest.mark.rule(108, 134, 135, 150)
def test_markdown_is_readable_and_keeps_what_the_agent_wrote_as_markdown(desk: Desk) -> None:
    text = desk.sessions("export", "bbb-3")
    head, body = text.split("\n\n## You", 1)
    assert head == (
        "# Third\n\n- Agent: keeper\n- Session: `bbb-3`\n"
        f"- Folder: `{desk.project}`\n- Also: `/lib`\n- From: the agent"
    )
    assert "## You" + body == MARKDOWN
    assert desk.calls("session/load") == [
        {
            "sessionId": "bbb-3",
            "cwd": str(desk.project),
            "additionalDirectories": ["/lib"],
            "mcpServers": [],
        }
    ]


def test_json_has_a_version_and_the_shapes_of_the_protocol(desk: Desk) -> None:
    place = desk.project / "out.json"
    assert desk.sessions("export", "aaa-1", "--format", "json", "-o", str(place)) == ""
    assert desk.said.endswith(f"is in {place}\n")
    document = json.loads(place.read_text())
    assert (document["format"], document["version"], document["source"]) == ("accord.session", 1, "agent")
    assert document["title"].startswith("First")
    timeline = document["timeline"]
    assert [part["type"] for part in timeline] == [
        *("message", "message", "plan"), *("tool_call",) * 3, "message",
    ]  # fmt: skip
    assert timeline[0] == {
        "type": "message",
        "role": "user",
        "content": [{"type": "text", "text": "Make it *better*"}],
    }
    assert timeline[3]["content"][0]["newText"] == "one\n2\n"
    assert timeline[5]["endedAs"] == "ended_without_result"
    before = place.read_text()
    desk.sessions("export", "aaa-1", "-o", str(place), code=2)
    assert place.read_text() == before


def test_show_is_for_reading_and_for_programs(desk: Desk) -> None:
    text = desk.sessions("show", "bbb-3")
    assert text.startswith(
        f"session:   bbb-3\ntitle:     Third\nagent:     keeper\nfolder:    {desk.project}\n"
    )
    assert "> Hm </details> `x`" in text
    assert json.loads(desk.sessions("show", "bbb-3", "--json"))["version"] == 1


@pytest.mark.rule(150)
def test_on_a_terminal_markdown_is_rendered(desk: Desk) -> None:
    env = {**desk.env, "TERM": "xterm-256color"}
    with in_terminal("sessions", "show", "bbb-3", "--cwd", str(desk.project), env=env) as terminal:
        terminal.expect("\x1b[1mYou\x1b[0m")
        assert terminal.end() == 0
    assert "## You" not in terminal.shown
    assert "\x1b[31mred" not in terminal.shown


@pytest.mark.rule(103)
@pytest.mark.parametrize(
    ("without", "why"),
    [
        ("load", "keeper cannot load its sessions"),
        ("replay", "keeper replays nothing of this session"),
    ],
)
def test_what_the_agent_cannot_tell_was_recorded_here(desk: Desk, without: str, why: str) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT=without)
    desk.record("keeper", "bbb-3", "From the log.")
    text = desk.sessions("show", "bbb-3")
    assert "From the log." in text
    assert "from:      what was recorded here" in text
    assert desk.said == f"accord sessions: {why}; this was recorded here\n"
    assert len(desk.calls("session/load")) == (0 if without == "load" else 1)


def test_an_agent_that_cannot_load_and_no_record(desk: Desk) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="load")
    desk.sessions("show", "bbb-3", code=2)
    assert desk.said == "accord sessions: keeper cannot load its sessions\n"


def test_a_session_that_the_agent_forgot_was_recorded_here(desk: Desk) -> None:
    desk.record("keeper", "old-9", "Long ago.")
    assert "Long ago." in desk.sessions("export", "old-9")
    assert "Session not found" in desk.said


def test_an_agent_that_wants_a_login_first(desk: Desk) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_LOGIN=str(desk.home / "signed-in"))
    desk.sessions("list", code=6)
    desk.sessions("show", "bbb-3", code=6)
    assert "it offers no way to sign in over ACP" in desk.said
    assert "Authentication required" in desk.said


# -- fork and delete ----------------------------------------------------------------------------------------------


def test_a_fork_is_a_new_session(desk: Desk) -> None:
    assert desk.sessions("fork", "bbb") == "bbb-3-fork\n"
    assert "accord run -a keeper --session bbb-3-fork" in desk.said
    assert desk.calls("session/fork") == [{"sessionId": "bbb-3", "cwd": str(desk.project), "mcpServers": []}]
    made = json.loads(desk.sessions("fork", "bbb", "--json"))
    assert made == {"agent": "keeper", "sessionId": "bbb-3-fork", "forkedFrom": "bbb-3"}


@pytest.mark.rule(126, 282)
def test_what_the_agent_does_not_offer_is_not_called(desk: Desk) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="fork,delete")
    desk.sessions("fork", "bbb-3", code=2)
    assert desk.said == "accord sessions: keeper cannot fork its sessions\n"
    desk.sessions("delete", "bbb-3", code=2)
    assert "cannot delete its sessions" in desk.said
    desk.record("keeper", "bbb-3", "Recorded.")
    desk.sessions("delete", "bbb-3")
    assert "only what was recorded here is gone" in desk.said
    assert desk.calls("session/fork") == desk.calls("session/delete") == []
    assert desk.sessions("list", "--recorded") == ""


def test_delete_removes_a_session_at_the_agent_and_here(desk: Desk) -> None:
    desk.record("keeper", "bbb-3", "Recorded.")
    desk.record("keeper", "old-9", "The agent does not know it.")
    desk.sessions("delete", "bbb-3", "aaa-1", "old-9")
    assert desk.said.splitlines() == [
        "accord sessions: deleted at keeper and here: bbb-3",
        "accord sessions: deleted at keeper: aaa-1 (First red <U+202E>back<U+202C>)",
        "accord sessions: deleted here: old-9",
    ]
    assert [call["sessionId"] for call in desk.calls("session/delete")] == ["bbb-3", "aaa-1", "old-9"]
    assert desk.sessions("list", "--recorded") == ""


def test_one_id_that_is_wrong_deletes_nothing(desk: Desk) -> None:
    desk.sessions("delete", "bbb-3", "zzz", code=2)
    assert desk.calls("session/delete") == []


# -- together with `accord run` -----------------------------------------------------------------------------------


def test_what_accord_run_did_is_there(desk: Desk) -> None:
    desk.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list,load")
    assert desk.accord("run", "--format", "quiet", "hello").strip() == "Heard."
    text = desk.sessions("export", "new")
    assert "## You\n\nhello\n\n## Agent\n\nHeard.\n" in text
    behind = ("--", sys.executable, KEEPER)
    desk.accord("run", "--format", "quiet", "again", *behind)
    assert "again" in desk.sessions("show", "new", "--recorded", *behind)


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["show"],
        ["list", "--cwd", "/no/such/folder"],
        ["list", "-a", "nobody"],
        ["list", "--"],
    ],
)
def test_what_is_wrong_is_one_line(desk: Desk, words: list[str]) -> None:
    desk.sessions(*words, code=2)
    assert desk.said.startswith("accord sessions: ")
    assert desk.said.count("\n") == 1


def test_records_that_cannot_be_read_are_no_obstacle(desk: Desk) -> None:
    (desk.home / "data" / "client.db").write_text("this is no database, and never was one" * 100)
    assert desk.sessions("list").split()[0] == "aaa-1"
    assert "what was recorded here cannot be read" in desk.said
    desk.sessions("list", "--recorded", code=1)


def test_records_are_where_the_client_puts_them(desk: Desk) -> None:
    desk.record("keeper", "r-1", "Yes.")
    records = Records(open_store(desk.home / "data" / "client.db"))
    assert [one.session_id for one in records.list(agent="keeper")] == ["r-1"]
    records.close()


def test_recorded_sessions_of_an_agent_are_found_by_any_of_its_names(desk: Desk) -> None:
    desk.record("claude", "c-1", "Hello.")
    desk.record("gone", "g-1", "Hello.")
    for name, session in (("claude", "c-1"), ("Claude-Code", "c-1"), ("gone", "g-1")):
        assert desk.sessions("list", "--recorded", "-a", name).split()[0] == session


def test_a_folder_whose_name_is_not_utf_8_is_named_to_no_agent(desk: Desk) -> None:
    strange = os.fsencode(desk.project) + b"\xff"
    os.mkdir(strange)
    shown = os.fsdecode(strange)
    told = f"--cwd: the name of {shown!a} is not UTF-8, so no agent can be told of it: rename it\n"
    desk.sessions("list", "--cwd", shown, code=2)
    assert desk.said == f"accord sessions: {told}"
    desk.accord("run", "hello", "--cwd", shown, code=2)
    assert desk.said == f"accord run: {told}"
    desk.accord("run", "hello", "--add-dir", shown, code=2)
    assert desk.said == f"accord run: {told.replace('--cwd', '--add-dir')}"
    desk.record("keeper", "kept", "Hello.")
    desk.sessions("list", "--recorded", "--cwd", shown)
    assert desk.said.startswith("accord sessions: no sessions of ")
    assert desk.sessions("list", "--recorded", "--all", "--cwd", shown).split()[0] == "kept"
    desk.accord("agents", "list", "--cwd", shown)
