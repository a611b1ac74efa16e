"""`accord sessions`: the sessions of an agent, and recorded sessions where the agent cannot provide them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.accord_command import run_accord
from tests.cli.run.test_run_url import RefusingServer
from tests.cli.terminal import in_terminal

from accord.frontend.recording import RecordedSessions
from accord.schema import AgentMessageChunk, TextContent
from accord.session import SessionOpened, TurnEnded, TurnStarted
from accord.store import open_store
from accord.testing.hostile import hostile_command

KEEPER = str(Path(__file__).parent / "agents" / "keeper.py")


class SessionsHarness:
    """A user with an own home, a project, and an agent called `keeper` that stores sessions."""

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
        """Add an agent to the user's acp.json."""
        file = self.home / "config" / "acp.json"
        known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"servers": {}}
        known["servers"][name] = {"command": command[0], "args": list(command[1:]), "env": env}
        known["defaultServer"] = "keeper"
        file.write_text(json.dumps(known))

    def accord(self, *words: str, code: int = 0) -> str:
        """Run a command and return its stdout. Neither output stream may contain control characters."""
        ran = run_accord(*words, cwd=self.project, env=self.env)
        self.stderr = ran.stderr
        assert ran.returncode == code, ran.stderr
        for text in (ran.stdout, ran.stderr):
            assert all(char.isprintable() or char == "\n" for char in text), text
        return ran.stdout

    def sessions(self, *words: str, code: int = 0) -> str:
        return self.accord("sessions", *words, code=code)

    def calls(self, method: str) -> list[Any]:
        """Return the parameters of every call of this method."""
        lines = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [line["params"] for line in lines if line["method"] == method]

    def record(self, agent: str, session_id: str, *texts: str, cwd: str | None = None) -> None:
        """Record a session as the client does."""
        store = open_store(self.home / "data" / "client.db")
        key = f"{agent}/{session_id}"
        where = cwd or str(self.project)
        store.create(key, where, agent=agent)
        with store.journal(key) as journal:
            journal.append(SessionOpened(session_id, where), TurnStarted([TextContent("Recorded?")]))
            journal.append(*(AgentMessageChunk(TextContent(words), f"m{words}") for words in texts))
            journal.append(TurnEnded("end_turn", "end_turn"))
        store.close()


@pytest.fixture
def harness(tmp_path: Path) -> SessionsHarness:
    return SessionsHarness(tmp_path)


# -- list ------------------------------------------------------------------------------------------------


@pytest.mark.rule("session.list-last-page", "session.list-cursor-verbatim")
def test_list_reads_all_pages_of_the_agent_and_shows_local_times(harness: SessionsHarness) -> None:
    assert harness.sessions("list").splitlines() == [
        "aaa-1  2026-08-01 19:00  First red <U+202E>back<U+202C>",
        "aaa-2  yesterday",
        "bbb-3  -                 Third",
    ]
    assert harness.stderr == ""
    assert harness.calls("session/list") == [
        {"cwd": str(harness.project)},
        {"cwd": str(harness.project), "cursor": "2"},
    ]


def test_list_all_shows_the_sessions_of_every_folder(harness: SessionsHarness) -> None:
    lines = harness.sessions("list", "--all").splitlines()
    assert lines[-1].split() == ["ccc-4", "-", "/elsewhere", "Fourth"]
    assert harness.calls("session/list")[0] == {}


def test_options_without_a_subcommand_list_the_sessions(harness: SessionsHarness) -> None:
    assert harness.sessions("--all") == harness.sessions("list", "--all")


def test_list_prints_json(harness: SessionsHarness) -> None:
    listed = json.loads(harness.sessions("list", "--json"))
    assert listed[0]["title"] == "First \x1b[31mred\x1b[0m \u202eback\u202c"
    assert listed[2] == {
        "agent": "keeper",
        "sessionId": "bbb-3",
        "cwd": str(harness.project),
        "additionalDirectories": ["/lib"],
        "title": "Third",
        "updatedAt": None,
        "archived": False,
        "source": "agent",
    }


@pytest.mark.rule("session.list-needs-capability")
def test_recorded_sessions_are_listed_when_the_agent_cannot_list(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list,load")
    harness.record("keeper", "r-1", "Yes.")
    harness.record("other", "r-2", "No.")
    harness.record("keeper", "r-3", "Far away.", cwd="/elsewhere")
    assert harness.sessions("list").split()[0] == "r-1"
    assert (
        harness.stderr
        == "accord sessions: keeper cannot list its sessions; showing the sessions recorded here\n"
    )
    assert [line.split()[0] for line in harness.sessions("list", "--all").splitlines()] == ["r-3", "r-1"]
    assert harness.calls("session/list") == []


def test_recorded_sessions_need_no_agent(harness: SessionsHarness) -> None:
    harness.record("keeper", "r-1", "Yes.")
    harness.record("gone", "r-2", "No.")
    lines = harness.sessions("list", "--recorded").splitlines()
    assert [(line.split()[0], line.split()[3]) for line in lines] == [("r-2", "gone"), ("r-1", "keeper")]
    assert harness.sessions("list", "--recorded", "-a", "gone").split()[0] == "r-2"
    assert "No." in harness.sessions("show", "r-2", "--recorded")
    assert harness.stderr == ""
    harness.sessions("delete", "r-2", "--recorded")
    assert harness.stderr == "accord sessions: deleted here: r-2 (Recorded?)\n"
    assert not harness.calls_file.exists()


def test_recorded_sessions_are_listed_when_the_agent_does_not_start(harness: SessionsHarness) -> None:
    harness.agent("keeper", *hostile_command("dies-at-start"))
    harness.sessions("list", code=3)
    assert "the disk is full" in harness.stderr
    harness.record("keeper", "r-1", "Yes.")
    assert harness.sessions("list").split()[0] == "r-1"
    assert "exited with code 7" in harness.stderr
    assert "Yes." in harness.sessions("show", "r")


def test_an_endless_session_list_exits_with_3(harness: SessionsHarness) -> None:
    harness.agent("keeper", *hostile_command("endless-list"))
    harness.sessions("list", code=3)
    assert "the list would never end" in harness.stderr


def test_an_empty_list_is_not_an_error(harness: SessionsHarness) -> None:
    assert harness.sessions("list", "--cwd", "/") == ""
    hint = "use --all for every folder or --recorded for recordings of all agents"
    assert harness.stderr == f"accord sessions: no sessions in /; {hint}\n"


# -- session ids -----------------------------------------------------------------------------------------


def test_a_unique_prefix_of_an_id_is_enough(harness: SessionsHarness) -> None:
    assert harness.sessions("show", "bbb").splitlines()[0] == "session:   bbb-3"
    harness.sessions("show", "aaa", code=2)
    assert harness.stderr == (
        "accord sessions: 'aaa' matches aaa-1 (First red <U+202E>back<U+202C>), aaa-2: give more of the id\n"
    )
    harness.sessions("show", "zzz", code=2)
    assert harness.stderr == "accord sessions: no session of keeper has an id that starts with 'zzz'\n"
    harness.sessions("show", "", code=2)


def test_a_complete_id_wins_over_longer_ids(harness: SessionsHarness) -> None:
    harness.record("keeper", "bbb-33", "Longer.")
    harness.record("other", "bbb-3", "Of another agent.")
    assert harness.sessions("show", "bbb-3").splitlines()[1] == "title:     Third"
    harness.sessions("show", "bbb", "--recorded", code=2)
    assert harness.stderr.endswith(
        "matches other: bbb-3 (Recorded?), keeper: bbb-33 (Recorded?): "
        "give more of the id, or name the agent with -a\n"
    )
    harness.record("keeper", "bbb-3", "The same id.")
    harness.sessions("show", "bbb-3", "--recorded", code=2)
    assert harness.stderr.endswith(
        "matches keeper: bbb-3 (Recorded?), other: bbb-3 (Recorded?): name the agent with -a\n"
    )
    harness.record("keeper", "ccc-1", "One.")
    harness.record("keeper", "ccc-2", "Two.")
    harness.sessions("show", "ccc", "--recorded", code=2)
    assert harness.stderr.endswith("matches ccc-2 (Recorded?), ccc-1 (Recorded?): give more of the id\n")


# -- show and export -------------------------------------------------------------------------------------

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

**✓ Edit a.py red \\<U+202E\\>back\\<U+202C\\>**

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


@pytest.mark.rule(
    "session.load-shown-as-history",
    "session.roots-sent-again",
    "session.roots-not-merged",
    "prompt.text-as-markdown",
)
def test_export_markdown_keeps_the_markdown_of_the_agent(harness: SessionsHarness) -> None:
    text = harness.sessions("export", "bbb-3")
    head, body = text.split("\n\n## You", 1)
    assert head == (
        "# Third\n\n- Agent: keeper\n- Session: `bbb-3`\n"
        f"- Folder: `{harness.project}`\n- Also: `/lib`\n- From: the agent"
    )
    assert "## You" + body == MARKDOWN
    assert harness.calls("session/load") == [
        {
            "sessionId": "bbb-3",
            "cwd": str(harness.project),
            "additionalDirectories": ["/lib"],
            "mcpServers": [],
        }
    ]


def test_export_json_has_a_version_and_protocol_types(harness: SessionsHarness) -> None:
    place = harness.project / "out.json"
    assert harness.sessions("export", "aaa-1", "--format", "json", "-o", str(place)) == ""
    assert harness.stderr.endswith(f" to {place}\n")
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
    harness.sessions("export", "aaa-1", "-o", str(place), code=2)
    assert place.read_text() == before


def test_show_prints_text_or_json(harness: SessionsHarness) -> None:
    text = harness.sessions("show", "bbb-3")
    assert text.startswith(
        f"session:   bbb-3\ntitle:     Third\nagent:     keeper\nfolder:    {harness.project}\n"
    )
    assert "> Hm </details> `x`" in text
    assert json.loads(harness.sessions("show", "bbb-3", "--json"))["version"] == 1


@pytest.mark.rule("prompt.text-as-markdown")
def test_show_renders_markdown_on_a_terminal(harness: SessionsHarness) -> None:
    env = {**harness.env, "TERM": "xterm-256color"}
    with in_terminal("sessions", "show", "bbb-3", "--cwd", str(harness.project), env=env) as terminal:
        terminal.expect("\x1b[1mYou\x1b[0m")
        assert terminal.end() == 0
    assert "## You" not in terminal.shown
    assert "\x1b[31mred" not in terminal.shown


@pytest.mark.rule("session.load-needs-capability")
@pytest.mark.parametrize(
    ("without", "why"),
    [
        ("load", "keeper cannot load its sessions"),
        ("replay", "keeper replays nothing of this session"),
    ],
)
def test_show_uses_the_record_when_the_agent_cannot_replay(
    harness: SessionsHarness, without: str, why: str
) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT=without)
    harness.record("keeper", "bbb-3", "From the log.")
    text = harness.sessions("show", "bbb-3")
    assert "From the log." in text
    assert "from:      the local recording" in text
    assert harness.stderr == f"accord sessions: {why}; showing the recording\n"
    assert len(harness.calls("session/load")) == (0 if without == "load" else 1)


def test_show_takes_an_id_on_trust_if_the_agent_cannot_list(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list")
    assert "Make it *better*" in harness.sessions("show", "bbb-3")
    assert [call["sessionId"] for call in harness.calls("session/load")] == ["bbb-3"]


def test_show_passes_the_configured_mcp_servers_if_the_agent_needs_them(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="servers")
    harness.sessions("show", "bbb-3", code=1)
    assert "the session needs its MCP servers" in harness.stderr
    file = harness.home / "config" / "acp.json"
    config = json.loads(file.read_text())
    config["servers"]["keeper"]["mcpServers"] = {"tickets": {"command": "tickets"}}
    file.write_text(json.dumps(config))
    assert "Make it *better*" in harness.sessions("show", "bbb-3")
    sent = [[server["name"] for server in call["mcpServers"]] for call in harness.calls("session/load")]
    assert sent == [[], [], ["tickets"]]


def test_show_fails_without_load_support_and_record(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="load")
    harness.sessions("show", "bbb-3", code=2)
    assert harness.stderr == "accord sessions: keeper cannot load its sessions\n"


def test_a_session_unknown_to_the_agent_is_read_from_the_record(harness: SessionsHarness) -> None:
    harness.record("keeper", "old-9", "Long ago.")
    assert "Long ago." in harness.sessions("export", "old-9")
    assert "Session not found" in harness.stderr


def test_an_agent_that_requires_sign_in_exits_with_6(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_LOGIN=str(harness.home / "signed-in"))
    harness.sessions("list", code=6)
    harness.sessions("show", "bbb-3", code=6)
    assert "the agent has no sign-in over ACP" in harness.stderr
    assert "Authentication required" in harness.stderr


# -- search, rename and archive --------------------------------------------------------------------------


def test_a_gateway_that_refuses_the_token_is_explained(harness: SessionsHarness) -> None:
    with RefusingServer() as server:
        harness.sessions("--url", server.url, code=3)
    assert "the token of --url comes from --token-file" in harness.stderr
    assert "not passed to the agent" not in harness.stderr


def test_search_finds_what_was_said_without_starting_an_agent(harness: SessionsHarness) -> None:
    harness.record("claude", "s1", "The \x1b[31mgrammar", " is cached.", cwd="/elsewhere")
    harness.record("claude", "s2", "Something else.")
    assert harness.sessions("search", "grammar", "recorded") == ""
    assert "no session has 'grammar recorded' in " in harness.stderr
    lines = harness.sessions("search", "--all", "grammar", "recorded").splitlines()
    assert lines[0].split()[0] == "s1"
    assert lines[0].endswith("claude  /elsewhere  Recorded?")
    assert lines[1:] == ["  Agent: The grammar is cached.", "  You:   Recorded?"] or lines[1:] == [
        "  You:   Recorded?",
        "  Agent: The grammar is cached.",
    ]
    (hit,) = json.loads(harness.sessions("search", "--all", "--json", "cached"))
    assert (hit["sessionId"], hit["matches"][0]["role"]) == ("s1", "agent")
    assert not harness.calls_file.exists()
    harness.sessions("search", "--limit", "0", "x", code=2)


def test_a_recording_is_renamed_archived_and_shown_again(harness: SessionsHarness) -> None:
    harness.record("claude", "s1", "Hi")
    harness.sessions("rename", "s1", "A", "better", "name", "--recorded")
    assert harness.stderr == "accord sessions: renamed s1: A better name\n"
    assert harness.sessions("list", "--recorded").rstrip().endswith("A better name")
    harness.sessions("archive", "s1", "--recorded")
    assert harness.sessions("list", "--recorded") == ""
    assert harness.sessions("list", "--recorded", "--archived").rstrip().endswith("A better name (archived)")
    harness.sessions("unarchive", "s1", "--recorded")
    assert harness.sessions("list", "--recorded").rstrip().endswith("A better name")
    harness.sessions("rename", "s1", " ", "--recorded", code=2)


def test_an_archived_session_that_was_not_recorded_is_shown_again(harness: SessionsHarness) -> None:
    """It was made in an editor: only the agent knows it."""
    harness.accord("run", "-a", "accord", "--model", "rehearsal", "hello")
    (harness.home / "data" / "client.db").unlink()
    session_id = harness.sessions("list", "-a", "accord").split()[0]
    harness.sessions("archive", session_id, "-a", "accord")
    assert harness.sessions("list", "-a", "accord") == ""
    assert harness.sessions("list", "-a", "accord", "--archived").rstrip().endswith("(archived)")
    harness.sessions("unarchive", session_id, "-a", "accord")
    assert harness.sessions("list", "-a", "accord").startswith(session_id)


def test_an_agent_with_the_extension_renames_and_archives_its_sessions(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_EXTENSION="sessionIndex")
    harness.sessions("rename", "bbb", "Better")
    harness.sessions("archive", "bbb")
    assert harness.calls("_session/rename") == [{"sessionId": "bbb-3", "title": "Better"}]
    assert harness.calls("_session/archive") == [{"sessionId": "bbb-3"}]


def test_a_session_of_the_coding_agent_is_renamed_and_forked_while_it_runs(harness: SessionsHarness) -> None:
    """Another process holds the session, as `accord chat` does."""
    harness.accord("run", "-a", "accord", "--model", "rehearsal", "hello")
    with open_store(harness.home / "data" / "sessions.db") as store:
        (session_id,) = (summary.session_id for summary in store.list().sessions)
        with store.journal(session_id):
            harness.sessions("rename", session_id, "Greetings", "-a", "accord")
            fork = harness.sessions("fork", session_id, "-a", "accord").strip()
            assert store.summary(session_id).title == "Greetings"
            listed = harness.sessions("list", "-a", "accord")
            assert "Greetings" in listed
    harness.accord("run", "-a", "accord", "--model", "rehearsal", "--session", fork, "again")


# -- fork and delete -------------------------------------------------------------------------------------


def test_fork_prints_the_new_session_id(harness: SessionsHarness) -> None:
    assert harness.sessions("fork", "bbb") == "bbb-3-fork\n"
    assert "accord run -a keeper --session bbb-3-fork" in harness.stderr
    assert harness.calls("session/fork") == [
        {"sessionId": "bbb-3", "cwd": str(harness.project), "mcpServers": []}
    ]
    made = json.loads(harness.sessions("fork", "bbb", "--json"))
    assert made == {"agent": "keeper", "sessionId": "bbb-3-fork", "forkedFrom": "bbb-3"}


@pytest.mark.rule("session.delete-needs-capability", "fork.needs-capability")
def test_unsupported_methods_are_not_called(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="fork,delete")
    harness.sessions("fork", "bbb-3", code=2)
    assert harness.stderr == "accord sessions: keeper cannot fork its sessions\n"
    harness.sessions("delete", "bbb-3", code=2)
    assert "cannot delete its sessions" in harness.stderr
    harness.record("keeper", "bbb-3", "Recorded.")
    harness.sessions("delete", "bbb-3")
    assert "only the recording was deleted" in harness.stderr
    assert harness.calls("session/fork") == harness.calls("session/delete") == []
    assert harness.sessions("list", "--recorded") == ""


def test_delete_removes_a_session_from_the_agent_and_the_records(harness: SessionsHarness) -> None:
    harness.record("keeper", "bbb-3", "Recorded.")
    harness.record("keeper", "old-9", "The agent does not know it.")
    harness.sessions("delete", "bbb-3", "aaa-1", "old-9")
    assert harness.stderr.splitlines() == [
        "accord sessions: deleted at keeper and here: bbb-3 (Recorded?)",
        "accord sessions: deleted at keeper: aaa-1 (First red <U+202E>back<U+202C>)",
        "accord sessions: deleted here: old-9 (Recorded?)",
    ]
    assert [call["sessionId"] for call in harness.calls("session/delete")] == ["bbb-3", "aaa-1", "old-9"]
    assert harness.sessions("list", "--recorded") == ""


def test_delete_keeps_the_recording_if_the_agent_does_not_start(harness: SessionsHarness) -> None:
    """Otherwise the session would be gone here and remain at the agent."""
    harness.agent("keeper", "/no/such/program")
    harness.record("keeper", "r-1", "Recorded.")
    harness.sessions("delete", "r-1", code=3)
    assert "/no/such/program" in harness.stderr
    assert harness.sessions("list", "--recorded").split()[0] == "r-1"


def test_delete_of_an_unknown_session_fails_unless_it_is_recorded(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list")
    harness.sessions("delete", "zzz-9", code=1)
    assert "Session not found" in harness.stderr
    harness.record("keeper", "zzz-9", "Recorded.")
    harness.sessions("delete", "zzz-9")
    assert harness.stderr == "accord sessions: deleted here: zzz-9 (Recorded?)\n"


def test_one_wrong_id_deletes_nothing(harness: SessionsHarness) -> None:
    harness.sessions("delete", "bbb-3", "zzz", code=2)
    assert harness.calls("session/delete") == []


# -- together with `accord run` --------------------------------------------------------------------------


def test_sessions_of_accord_run_are_recorded(harness: SessionsHarness) -> None:
    harness.agent("keeper", sys.executable, KEEPER, KEEPER_WITHOUT="list,load")
    assert harness.accord("run", "--format", "quiet", "hello").strip() == "Heard."
    text = harness.sessions("export", "new")
    assert "## You\n\nhello\n\n## Agent\n\nHeard.\n" in text
    behind = ("--", sys.executable, KEEPER)
    harness.accord("run", "--format", "quiet", "again", *behind)
    assert "again" in harness.sessions("show", "new", "--recorded", *behind)


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["show"],
        ["list", "--cwd", "/no/such/folder"],
        ["list", "-a", "unknown"],
        ["list", "--"],
    ],
)
def test_wrong_usage_is_a_one_line_error(harness: SessionsHarness, words: list[str]) -> None:
    harness.sessions(*words, code=2)
    assert harness.stderr.startswith("accord sessions: ")
    assert harness.stderr.count("\n") == 1


def test_unreadable_records_do_not_prevent_listing(harness: SessionsHarness) -> None:
    (harness.home / "data" / "client.db").write_text("this is no database, and never was one" * 100)
    assert harness.sessions("list").split()[0] == "aaa-1"
    assert "cannot read the local recordings" in harness.stderr
    harness.sessions("list", "--recorded", code=1)


def test_records_are_in_the_store_of_the_client(harness: SessionsHarness) -> None:
    harness.record("keeper", "r-1", "Yes.")
    records = RecordedSessions(open_store(harness.home / "data" / "client.db"))
    assert [one.session_id for one in records.list(agent="keeper")] == ["r-1"]
    records.close()


def test_recorded_sessions_are_found_by_any_name_of_the_agent(harness: SessionsHarness) -> None:
    harness.record("claude", "c-1", "Hello.")
    harness.record("gone", "g-1", "Hello.")
    for name, session in (("claude", "c-1"), ("Claude-Code", "c-1"), ("gone", "g-1")):
        assert harness.sessions("list", "--recorded", "-a", name).split()[0] == session


def test_a_folder_name_that_is_not_utf8_is_refused(harness: SessionsHarness) -> None:
    strange = os.fsencode(harness.project) + b"\xff"
    os.mkdir(strange)
    shown = os.fsdecode(strange)
    expected = f"--cwd {shown!a} is not UTF-8 and cannot be sent to an agent; rename the folder\n"
    harness.sessions("list", "--cwd", shown, code=2)
    assert harness.stderr == f"accord sessions: {expected}"
    harness.accord("run", "hello", "--cwd", shown, code=2)
    assert harness.stderr == f"accord run: {expected}"
    harness.accord("run", "hello", "--add-dir", shown, code=2)
    assert harness.stderr == f"accord run: {expected.replace('--cwd', '--add-dir')}"
    harness.record("keeper", "kept", "Hello.")
    harness.sessions("list", "--recorded", "--cwd", shown)
    assert harness.stderr.startswith("accord sessions: no sessions in ")
    assert harness.sessions("list", "--recorded", "--all", "--cwd", shown).split()[0] == "kept"
    harness.accord("agents", "list", "--cwd", shown)
