"""Which actions an approved request of a foreign agent covers, so that the user is asked once and not twice.

The frames are those of goose 1.x, kimi-cli 1.52 and kimi-code 2.1.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.raw_agent import EventCollector, RawAgent, in_session, options

from accord.client import ClientHandlers
from accord.frontend.consent import Consent, permission_workspace
from accord.frontend.policy_handler import option_label
from accord.policy import Policy, Rules
from accord.schema import Diff, PermissionOption

KIMI_OPTIONS = options("approve:allow_once", "approve_for_session:allow_always", "reject:reject_once")
KIMI_VARIABLES = {"NO_COLOR": "1", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "SHELL": "/bin/bash"}


class AskedUser:
    """A user who answers every question with an option of the given kind; keeps the questions."""

    def __init__(self, kind: str = "allow_once", access: str = "reject_once") -> None:
        self.requests: list[str] = []
        self.questions: list[Any] = []
        self.offered: list[list[str]] = []
        self.asked_before: list[int] = []
        """For each time that earlier output was shown: how many questions had been asked."""
        self._kind = kind
        self._access = access

    async def wait_until_shown(self, session: Any) -> None:
        self.asked_before.append(len(self.requests) + len(self.questions))

    @asynccontextmanager
    async def start_question(self) -> AsyncGenerator["AskedUser"]:
        yield self

    async def permission(self, request: Any, action: Any, decision: Any, /) -> Any:
        self.requests.append(request.call.label)
        return request.option(self._kind)

    async def access(self, question: Any, decision: Any, options: Any, /) -> Any:
        self.questions.append(question)
        self.offered.append([option.kind for option in options])
        return next((option for option in options if option.kind == self._access), None)


@asynccontextmanager
async def turn_with(user: AskedUser, folder: Path) -> AsyncGenerator[RawAgent]:
    """A running turn of an agent whose requests go to this user."""
    consent = Consent(Policy(Rules(default="ask")), user, lambda _: None)
    consent.wait_until_shown = user.wait_until_shown
    handlers = ClientHandlers(permissions=consent, workspace=permission_workspace(consent))
    async with in_session(cwd=folder, handlers=handlers) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        yield peer
        await peer.end_turn(prompt)
        await turn.end()


async def ask(peer: RawAgent, **call: Any) -> None:
    """Announce a tool call and ask for its permission, as an agent does."""
    announced = call.pop("announced", {})
    peer.update("s1", "tool_call", toolCallId="c1", title=call.get("title", "tool"), **announced)
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c1", **call}, "options": KIMI_OPTIONS}
    await peer.result_of("session/request_permission", params)


async def run(peer: RawAgent, *command: str, env: dict[str, str] | None = None, **more: Any) -> bool:
    """Start a command; return whether it was started."""
    program, *args = command
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    params = {"sessionId": "s1", "command": program, "args": args, "env": variables, **more}
    answer = await peer.answer_to(peer.ask("terminal/create", params))
    return "result" in answer


async def write(peer: RawAgent, path: Path, text: str) -> bool:
    """Write a file; return whether it was written."""
    params = {"sessionId": "s1", "path": str(path), "content": text}
    return "result" in await peer.answer_to(peer.ask("fs/write_text_file", params))


def text(body: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": body}}]


# -- asked once --


async def test_a_goose_command_is_asked_once(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Developer: Shell", status="pending", rawInput={"command": "touch made"})
        assert await run(peer, "/bin/bash", "-c", "touch made", env={"AGENT_SESSION_ID": "20261116_1"})
        assert not await run(peer, "/bin/bash", "-c", "touch made")  # once
    assert (len(user.requests), len(user.questions)) == (1, 1)


async def test_what_the_agent_said_before_is_shown_before_each_question(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Write", rawInput={"path": "a.txt", "content": "new\n"})
        await write(peer, tmp_path / "b.txt", "new\n")
    assert (len(user.requests), len(user.questions), user.asked_before) == (1, 1, [0, 1])


async def test_a_goose_write_is_asked_once_and_its_change_is_shown(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Developer: Write", rawInput={"path": "a.txt", "content": "new\n"})
        assert await write(peer, tmp_path / "a.txt", "new\n")
        assert not await write(peer, tmp_path / "b.txt", "new\n")
    assert [question.what for question in user.questions] == [f"write {tmp_path}/b.txt"]


async def test_a_kimi_cli_command_is_asked_once(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        shown = text("Requesting approval to perform: Run command `touch made && echo `date``")
        await ask(peer, title="Shell: touch made", content=shown)
        assert await run(peer, "touch made && echo `date`")
    assert user.questions == []


async def test_a_kimi_code_command_in_its_wrapper_is_asked_once(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(
            peer,
            announced={"kind": "execute", "rawInput": {"command": "touch 'a b'"}},
            title="Bash",
            content=text("Requesting approval to run a command"),
        )
        line = f"cd '{tmp_path}' && touch 'a b'"
        assert await run(peer, "/bin/bash", "-c", line, env=KIMI_VARIABLES, cwd=str(tmp_path))
    assert user.questions == []


@pytest.mark.parametrize("shown", ["diff", "edit"])
async def test_a_kimi_write_is_asked_once(shown: str, tmp_path: Path) -> None:
    user = AskedUser()
    (tmp_path / "a.txt").write_text("old\n")
    diff = {"type": "diff", "path": str(tmp_path / "a.txt"), "oldText": "old\n", "newText": "new\n"}
    edit = {"path": str(tmp_path / "a.txt"), "old_string": "old", "new_string": "new"}
    async with turn_with(user, tmp_path) as peer:
        more = {"content": [diff]} if shown == "diff" else {"rawInput": edit}
        await ask(peer, title="WriteFile: a.txt", **more)
        assert await write(peer, tmp_path / "a.txt", "new\n")
    assert user.questions == []


async def test_the_agents_always_also_counts_for_the_client(tmp_path: Path) -> None:
    user = AskedUser("allow_always")
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Shell: x", content=text("Run command `npm test`"))
        assert await run(peer, "npm test", env={"NO_COLOR": "1"}) is not None
        # The agent does not ask again. The client offers "always" for what it did not hear of.
        await run(peer, "npm test")
        assert user.questions == []
        assert not await run(peer, "npm install x")
    assert [kind for kind in user.offered[0] if kind.endswith("always")] == ["allow_always", "reject_always"]


async def test_always_is_offered_where_the_agent_offered_it(tmp_path: Path) -> None:
    """Without a known scope, the client's "always" covers exactly the same command, folder and variables."""
    user = AskedUser(access="allow_always")
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Shell", content=text("Run command `true`"))
        assert await run(peer, "echo hi", env={"X": "1"})
        assert await run(peer, "echo hi", env={"X": "1"})
        assert await run(peer, "echo hi", env={"X": "2"})
    assert user.offered == [["allow_once", "allow_always", "reject_once"]] * 2


# -- never more than what was shown --


@pytest.mark.parametrize(
    "line",
    [
        "cd {folder} && touch made; touch pwned",
        "cd {folder}; touch made",
        "(cd {folder}) && touch made",
        "cd {folder} > pwned && touch made",
        "X=1 cd {folder} && touch made",
        "cd {folder}/sub && touch made",
        "cd / && touch made",
        "cd sub && touch made",
        "cd $HOME && touch made",
        "cd $(touch pwned) && touch made",
        "touch pwned && touch made",
        "cd {folder} && touch pwned && touch made",
    ],
)
async def test_another_line_than_the_approved_command_is_asked(line: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", kind="execute", rawInput={"command": "touch made"})
        assert not await run(peer, "bash", "-c", line.replace("{folder}", str(tmp_path)))
    assert len(user.questions) == 1


@pytest.mark.parametrize(
    "call",
    [
        {"title": "touch made"},
        {"title": "Shell", "content": text("Never run `touch made`, run `ls`")},
        {"title": "Shell", "content": text("Run `touch made` later")},
        {"title": "Shell", "kind": "think", "rawInput": {"command": "touch made"}},
        {"title": "Shell", "kind": "read", "content": text("Run command `touch made`")},
        {"title": "Shell", "rawInput": {"command": "touch made", "cwd": "/elsewhere"}},
    ],
    ids=str,
)
async def test_a_command_that_was_not_shown_is_asked(call: dict[str, Any], tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, **call)
        assert not await run(peer, "touch made")
    assert len(user.questions) == 1


async def test_a_request_to_read_a_file_does_not_allow_to_write_it(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Developer: Read", rawInput={"path": str(tmp_path / "a.txt")})
        assert not await write(peer, tmp_path / "a.txt", "new\n")
    assert len(user.questions) == 1


@pytest.mark.parametrize(
    ("name", "value", "asked"),
    [
        ("AGENT_SESSION_ID", "x", False),
        ("GIT_TERMINAL_PROMPT", "0", False),
        ("GIT_TERMINAL_PROMPT", "$(x)", True),
        ("SHELL", "/bin/bash", False),
        ("SHELL", "{folder}/bash", True),
        ("LD_PRELOAD", "/tmp/x.so", True),
        ("GIT_PAGER", "touch pwned", True),
    ],
)
async def test_only_harmless_variables_are_ignored(
    name: str, value: str, asked: bool, tmp_path: Path
) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", kind="execute", rawInput={"command": "touch made"})
        started = await run(peer, "touch made", env={name: value.replace("{folder}", str(tmp_path))})
    assert started is not asked
    assert bool(user.questions) is asked


async def test_an_approval_ends_with_its_tool_call(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", rawInput={"command": "touch made"})
        peer.update("s1", "tool_call_update", toolCallId="c1", status="completed")
        assert not await run(peer, "touch made")


async def ask_and_run(peer: RawAgent, session_id: str, *, asks: bool) -> bool:
    """Ask for the permission of a command if `asks`, and run it; return whether it was started."""
    if asks:
        call = {"toolCallId": "c1", "kind": "execute", "title": "Bash", "rawInput": {"command": "touch made"}}
        params = {"sessionId": session_id, "toolCall": call, "options": KIMI_OPTIONS}
        await peer.result_of("session/request_permission", params)
    params = {"sessionId": session_id, "command": "touch made"}
    return "result" in await peer.answer_to(peer.ask("terminal/create", params))


@pytest.mark.parametrize("reason", ["end_turn", "cancelled"])
@pytest.mark.parametrize("session_id", ["s1", "child"])
async def test_an_approval_ends_with_its_turn(session_id: str, reason: str, tmp_path: Path) -> None:
    user = AskedUser()
    consent = Consent(Policy(Rules(default="ask")), user, lambda _: None)
    handlers = ClientHandlers(permissions=consent, workspace=permission_workspace(consent))
    async with in_session(cwd=tmp_path, handlers=handlers) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="child", state={"state": "running"})
        call = {"toolCallId": "c1", "kind": "execute", "title": "Bash", "rawInput": {"command": "touch made"}}
        params = {"sessionId": session_id, "toolCall": call, "options": KIMI_OPTIONS}
        await peer.result_of("session/request_permission", params)
        if reason == "cancelled":
            session.cancel()
            await peer.next("session/cancel")
        await peer.end_turn(prompt, reason)
        await turn.end()
        turn = EventCollector(session.prompt("again"))
        prompt = await peer.next("session/prompt")
        assert not await ask_and_run(peer, session_id, asks=False)
        assert len(user.questions) == 1
        # The agent may use the id of a tool call again.
        assert await ask_and_run(peer, session_id, asks=True)
        assert len(user.questions) == 1
        await peer.end_turn(prompt)
        await turn.end()


@pytest.mark.parametrize("folder", ["", "sub"])
@pytest.mark.parametrize("command", ["sleep 0 & touch made", "sleep 0 &> log touch made"])
async def test_a_background_command_is_covered_only_in_its_own_folder(
    command: str, folder: str, tmp_path: Path
) -> None:
    """`cd D && A & B` runs B in the folder of the terminal."""
    (tmp_path / "sub").mkdir()
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(
            peer, title="Bash", kind="execute", rawInput={"command": command, "cwd": str(tmp_path / "sub")}
        )
        line = f"cd {tmp_path}/sub && {command}"
        assert await run(peer, "bash", "-c", line, cwd=str(tmp_path / folder)) is (folder == "sub")
    assert len(user.questions) == (folder == "")


async def test_an_approved_command_runs_once(tmp_path: Path) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", kind="execute", rawInput={"command": "touch made"})
        assert await run(peer, "touch made")
        assert not await run(peer, "touch made")


@pytest.mark.parametrize("named", ["absolute", "relative", "link"])
async def test_a_file_of_the_project_that_is_named_like_a_shell_is_asked_and_shown(
    named: str, tmp_path: Path
) -> None:
    user = AskedUser()
    program = tmp_path / "bash"
    if named == "link":
        program.symlink_to("/bin/sh")
    else:
        program.write_text("#!/bin/sh\ntouch pwned\n")
        program.chmod(0o755)
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", kind="execute", rawInput={"command": "touch made"})
        name = "./bash" if named == "relative" else str(program)
        assert not await run(peer, name, "-c", "touch made")
    (question,) = user.questions
    assert question.details[0] == f"$ {name} -c 'touch made'"


async def test_a_program_that_is_named_like_a_shell_line_is_asked_and_shown(tmp_path: Path) -> None:
    user = AskedUser()
    program = tmp_path / "cat notes" / "todo"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch pwned\n")
    program.chmod(0o755)
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Bash", kind="execute", rawInput={"command": "cat notes/todo"})
        assert not await run(peer, "cat notes/todo")
    (question,) = user.questions
    assert question.details[0] == "$ 'cat notes/todo'"


@pytest.mark.parametrize("kind", [None, "edit", "delete"])
@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("one\ntwo\n", "one\n2\n", "evil\n"),
        ("two", "2", "2"),  # a part was shown
        ("two", "2", "one\n2\nevil\n"),
        ("other\n", "2\n", "2\n"),
        (None, "2\n", "2\n"),  # shown as a new file
    ],
)
async def test_another_change_than_the_shown_one_is_asked(
    kind: str | None, old: str | None, new: str, written: str, tmp_path: Path
) -> None:
    user = AskedUser()
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    diff = {"type": "diff", "path": str(path), "oldText": old, "newText": new}
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Edit a.txt", content=[diff], **({} if kind is None else {"kind": kind}))
        assert not await write(peer, path, written)
    assert [question.diff for question in user.questions] == [Diff(str(path), written, "one\ntwo\n")]


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("one\ntwo\n", [("one\ntwo\n", "one\n2\n")], "one\n2\n"),
        ("one\ntwo\n", [("two", "2")], "one\n2\n"),
        ("a\na\n", [("a", "b")], "b\nb\n"),
        ("a\na\n", [("a", "b")], "a\nb\n"),
        ("a\nb\n", [("a", "1"), ("b", "2")], "1\n2\n"),
        ("\ufeffone\r\ntwo\r\n", [("one\ntwo\n", "one\n2\n")], "\ufeffone\r\n2\r\n"),
        (None, [(None, "new\n")], "new\n"),
    ],
)
async def test_the_shown_change_is_not_asked_again(
    before: str | None, changes: list[tuple[str | None, str]], after: str, tmp_path: Path
) -> None:
    user = AskedUser()
    path = tmp_path / "a.txt"
    if before is not None:
        path.write_bytes(before.encode())
    diffs = [{"type": "diff", "path": str(path), "oldText": old, "newText": new} for old, new in changes]
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Edit a.txt", kind="edit", content=diffs)
        assert await write(peer, path, after)
    assert user.questions == []


async def test_a_write_whose_change_was_not_shown_is_asked(tmp_path: Path) -> None:
    user = AskedUser()
    path = tmp_path / "a.txt"
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Edit a.txt", kind="edit", locations=[{"path": str(path)}])
        assert not await write(peer, path, "new\n")
    assert [question.diff for question in user.questions] == [Diff(str(path), "new\n", None)]


async def test_a_request_to_read_that_names_no_file_does_not_cover_a_secret(tmp_path: Path) -> None:
    user = AskedUser()
    (tmp_path / ".env").write_text("KEY=1\n")
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Read README.md", kind="read")
        request = peer.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / ".env")})
        assert "error" in await peer.answer_to(request)
    assert len(user.questions) == 1


async def test_the_agents_always_covers_exactly_the_shown_command(tmp_path: Path) -> None:
    user = AskedUser("allow_always")
    async with turn_with(user, tmp_path) as peer:
        await ask(peer, title="Shell", content=text("Run command `touch made`"))
        assert await run(peer, "touch made")
        assert await run(peer, "touch made")
        assert not await run(peer, "touch other")


@pytest.mark.parametrize(
    ("command", "more"),
    [
        (("no-such-program",), {}),
        (("/no/such/folder/bash", "-c", "ls"), {}),
        (("./missing.sh", "x"), {}),
        (("touch made",), {"cwd": "{folder}/missing"}),
    ],
)
async def test_a_command_that_cannot_start_is_not_asked_about(
    command: tuple[str, ...], more: dict[str, Any], tmp_path: Path
) -> None:
    user = AskedUser()
    async with turn_with(user, tmp_path) as peer:
        values: dict[str, Any] = {
            name: value.replace("{folder}", str(tmp_path)) for name, value in more.items()
        }
        assert not await run(peer, *command, **values)
    assert user.questions == []


# -- what the questions of the client show --


async def test_a_question_of_the_client_names_accord_and_shows_command_and_folder(tmp_path: Path) -> None:
    user = AskedUser()
    (tmp_path / "sub").mkdir()
    async with turn_with(user, tmp_path) as peer:
        await run(peer, "python3", "app.py", cwd=str(tmp_path / "sub"), env={"X": "1"})
        await run(peer, "make")
    first, second = user.questions
    assert first.title == "Accord asks: may the agent run a command?"
    assert first.details == ("$ python3 app.py", f"in {tmp_path}/sub")
    assert first.extras == ("with X=1",)
    assert second.details == ("$ make", f"in {tmp_path}")


async def test_a_write_shows_its_diff(tmp_path: Path) -> None:
    user = AskedUser()
    (tmp_path / "a.txt").write_text("old\n")
    async with turn_with(user, tmp_path) as peer:
        await write(peer, tmp_path / "a.txt", "new\n")
        await write(peer, tmp_path / "b.txt", "made\n")
        (tmp_path / "large.txt").write_text("x" * 1_500_000)
        await write(peer, tmp_path / "large.txt", "small\n")
    changed, made, large = (question.diff for question in user.questions)
    assert changed == Diff(str(tmp_path / "a.txt"), "new\n", "old\n")
    assert made == Diff(str(tmp_path / "b.txt"), "made\n", None)
    shown = "(1,500,000 bytes, too large to show)\n"
    assert large == Diff(str(tmp_path / "large.txt"), "small\n", shown), "it is not a new file"


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("Allow", "allow_once", "Allow"),
        ("Approve for this session", "allow_always", "Approve for this session"),
        ("No, tell the agent what to do", "reject_once", "No, tell the agent what to do"),
        ("Always reject edits", "reject_always", "Always reject edits"),
        ("Reject", "allow_always", "Reject (allow always)"),
        ("Allow once", "allow_always", "Allow once (allow always)"),
        ("Do not allow", "allow_once", "Do not allow (allow once)"),
        ("Später", "reject_once", "Später (reject once)"),
    ],
)
def test_an_option_whose_name_hides_what_it_does_says_so(name: str, kind: Any, shown: str) -> None:
    assert option_label(PermissionOption("x", name, kind)) == shown
