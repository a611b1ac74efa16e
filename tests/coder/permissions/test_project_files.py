"""Project files that change what the agent does take effect only after the user has seen and trusted them."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.coder.permissions.harness import make_session
from tests.coder.tools.harness import text_in

from accord.agent import PermissionAnswer, Turn
from accord.coder.permissions.project_files import (
    TRUST_OPTIONS,
    ProjectFiles,
    ask_trust,
    project_files,
    trust_asker,
)
from accord.errors import ConnectionClosed
from accord.policy import Policy, TrustStore
from accord.schema import PermissionOption
from accord.schema.content import ToolCallContent
from accord.testing import FakeClock

RULES = 'deny = [{ command = "git push *" }]\n'


@pytest.fixture
def trust(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "data" / "trust")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".accord" / "commands").mkdir(parents=True)
    return root


def put(project: Path, name: str, text: str) -> Path:
    path = project / name
    path.write_text(text)
    return path


class FakeUser:
    """A user who always gives this answer."""

    def __init__(self, answer: PermissionOption | None = None, error: Exception | None = None) -> None:
        self.answer = answer
        self.error = error
        self.shown: list[ToolCallContent] = []
        self.times = 0

    async def __call__(
        self, title: str, content: Sequence[ToolCallContent], options: Sequence[PermissionOption]
    ) -> PermissionAnswer:
        self.times += 1
        self.shown = list(content)
        assert options == TRUST_OPTIONS
        if self.error is not None:
            raise self.error
        return PermissionAnswer(self.answer, "selected" if self.answer else "cancelled")


async def test_found_files_are_untrusted_and_unused(project: Path, trust: TrustStore) -> None:
    put(project, ".accord/permissions.toml", RULES)
    put(project, ".accord/commands/deploy.md", "Deploy it")
    put(project, ".accord/commands/notes.txt", "nothing")
    put(project, ".accord/config.toml", "")
    put(project, ".accord/mcp.json", "{}")
    put(project, ".mcp.json", "{}")
    files = project_files(str(project), trust)
    assert {name: file.purpose for name, file in files.untrusted.items()} == {
        ".accord/permissions.toml": "rules",
        ".accord/config.toml": "settings",
        ".accord/mcp.json": "MCP servers",
        ".mcp.json": "MCP servers",
        ".accord/commands/deploy.md": "command",
    }
    assert (files.trusted, files.rules()) == ({}, None)
    assert files.warnings() == [
        "not trusted, so not used: .accord/permissions.toml, .accord/config.toml, .accord/mcp.json, "
        ".mcp.json, .accord/commands/deploy.md"
    ]


async def test_only_requested_purposes_are_listed(project: Path, trust: TrustStore) -> None:
    put(project, ".accord/permissions.toml", RULES)
    put(project, ".mcp.json", "{}")
    files = project_files(str(project), trust, purposes=["rules"])
    assert files.warnings() == ["not trusted, so not used: .accord/permissions.toml"]


async def test_project_without_such_files_asks_nothing(project: Path, trust: TrustStore) -> None:
    files = project_files(str(project), trust)
    user = FakeUser(TRUST_OPTIONS[0])
    assert await ask_trust(files, user)
    assert (user.times, files.warnings()) == (0, [])


async def test_trust_covers_exactly_this_content(project: Path, trust: TrustStore) -> None:
    put(project, ".accord/permissions.toml", RULES)
    command = put(project, ".accord/commands/deploy.md", "Deploy ```it```")
    files = project_files(str(project), trust)
    user = FakeUser(TRUST_OPTIONS[0])
    assert await ask_trust(files, user)
    assert text_in(user.shown[1:2]) == f"```\n{RULES}```"
    assert text_in(user.shown[3:4]) == "````\nDeploy ```it```\n````"
    assert (files.untrusted, files.warnings()) == ({}, [])
    again = project_files(str(project), trust)
    assert again.trusted[".accord/commands/deploy.md"].text == "Deploy ```it```"
    command.write_text("Deploy it twice")
    changed = project_files(str(project), trust)
    assert list(changed.untrusted) == [".accord/commands/deploy.md"]
    assert list(changed.trusted) == [".accord/permissions.toml"]


async def test_used_content_is_the_content_that_was_shown(project: Path, trust: TrustStore) -> None:
    command = put(project, ".accord/commands/deploy.md", "harmless")
    files = project_files(str(project), trust)

    async def meanwhile(*_: Any) -> PermissionAnswer:
        command.write_text("harmful")
        return PermissionAnswer(TRUST_OPTIONS[0], "selected")

    assert await ask_trust(files, meanwhile)
    assert files.trusted[".accord/commands/deploy.md"].text == "harmless"
    assert list(project_files(str(project), trust).untrusted) == [".accord/commands/deploy.md"]


async def test_invisible_characters_are_shown_escaped(project: Path, trust: TrustStore) -> None:
    (project / ".accord/commands/x.md").write_bytes("a\u202eb\u200b\x1b[8m\r\n".encode() + b"\xff")
    user = FakeUser()
    await ask_trust(project_files(str(project), trust), user)
    assert text_in(user.shown[1:2]) == "```\na\\u202eb\\u200b\\x1b[8m\\r\n\\xff\n```"


@pytest.mark.parametrize(
    "user",
    [
        FakeUser(TRUST_OPTIONS[1]),
        FakeUser(None),
        FakeUser(PermissionOption("allow_once", "Allow", "allow_once")),
        FakeUser(PermissionOption("ignore", "Trust", "allow_always")),
        FakeUser(error=ConnectionClosed("gone")),
    ],
)
async def test_any_other_answer_trusts_nothing(project: Path, trust: TrustStore, user: FakeUser) -> None:
    put(project, ".accord/permissions.toml", RULES)
    files = project_files(str(project), trust)
    assert not await ask_trust(files, user)
    assert files.rules() is None
    assert files.warnings() == ["not trusted, so not used: .accord/permissions.toml"]
    assert not trust.folder.exists()


async def test_trust_question_times_out(project: Path, trust: TrustStore) -> None:
    put(project, ".accord/permissions.toml", RULES)
    files = project_files(str(project), trust)
    clock = FakeClock()
    cancelled = asyncio.Event()

    async def no_answer(*_: Any) -> PermissionAnswer:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    task = asyncio.ensure_future(ask_trust(files, no_answer, clock=clock))
    await clock.advance(120)
    assert not await task
    assert cancelled.is_set()
    assert list(files.untrusted) == [".accord/permissions.toml"]


async def test_trust_that_cannot_be_stored_does_not_count(project: Path, tmp_path: Path) -> None:
    put(project, ".accord/permissions.toml", RULES)
    (tmp_path / "data").write_text("in the way")
    files = project_files(str(project), TrustStore(tmp_path / "data" / "trust"))
    assert not await ask_trust(files, FakeUser(TRUST_OPTIONS[0]))
    assert files.rules() is None


@pytest.mark.parametrize("kind", ["allow_once", "allow_always"])
async def test_only_the_trust_option_trusts(project: Path, trust: TrustStore, kind: str) -> None:
    """A client that always picks `allow_once` finds no such option."""
    put(project, ".accord/permissions.toml", RULES)
    files = project_files(str(project), trust)

    async def answer(turn: Turn) -> None:
        await ask_trust(files, trust_asker(turn))

    async with connected_client(make_agent(answer)) as client:
        turn = client.prompt(await client.new_session(str(project)))
        asked = await client.asked("session/request_permission")
        offered = [option["optionId"] for option in asked["params"]["options"] if option["kind"] == kind]
        chosen = offered[0] if offered else kind
        client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": chosen}})
        await client.turn_of(turn)
    assert RULES in asked["params"]["toolCall"]["content"][1]["content"]["text"]
    assert (files.untrusted == {}) is (kind == "allow_always")


# -- rules ---------------------------------------------------------------------------------------------------


async def trusted_files(project: Path, trust: TrustStore) -> ProjectFiles:
    files = project_files(str(project), trust)
    await ask_trust(files, FakeUser(TRUST_OPTIONS[0]))
    return files


async def test_project_rules_tighten_and_never_widen(
    project: Path, trust: TrustStore, tmp_path: Path
) -> None:
    put(
        project,
        ".accord/permissions.json",
        '{"deny": [{"command": "git push *"}], "allow": [{"command": "make *"}]}',
    )
    session = make_session(tmp_path)
    session.gate.policy = Policy(project=(await trusted_files(project, trust)).rules())
    ruling = await session.ruling("bash", command="git push origin")
    assert "(deny rule 1 of .accord/permissions.json (command git push *))" in ruling.message
    assert await session.asked_decision("bash", command="make all")


@pytest.mark.parametrize(
    ("texts", "expected_text"),
    [
        ({"permissions.toml": "deny = 5"}, ".accord/permissions.toml: permissions.deny"),
        ({"permissions.toml": "deny ="}, ".accord/permissions.toml: cannot be read"),
        ({"permissions.json": "\ud800"}, ".accord/permissions.json: cannot be read"),
        ({"permissions.toml": RULES, "permissions.json": "{}"}, "keep one of them"),
    ],
)
async def test_unreadable_rules_make_writes_ask(
    project: Path, trust: TrustStore, tmp_path: Path, texts: dict[str, str], expected_text: str
) -> None:
    for name, text in texts.items():
        (project / ".accord" / name).write_bytes(text.encode(errors="surrogatepass"))
    files = await trusted_files(project, trust)
    assert expected_text in files.warnings()[0]
    assert "every action needs a permission" in files.warnings()[0]
    session = make_session(tmp_path, mode="full-access")
    session.gate.policy = Policy(project=files.rules())
    assert await session.asked_decision("write_file", path="a.py", content="")
    assert (await session.ruling("read_file", path="a.py")).allowed


# -- invalid files -------------------------------------------------------------------------------------------


async def test_outside_links_large_files_and_non_files_are_left_out(
    project: Path, trust: TrustStore, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("geheim")
    commands = project / ".accord" / "commands"
    (commands / "out.md").symlink_to(secret)
    (commands / "gone.md").symlink_to(project / "nothing")
    (commands / "folder.md").mkdir()
    (commands / "large.md").write_text("x" * 70_000)
    (commands / "inside.md").symlink_to(put(project, "real.md", "fine"))
    os.mkfifo(commands / "pipe.md")
    files = project_files(str(project), trust)
    assert list(files.untrusted) == [".accord/commands/inside.md"]
    assert {name.rpartition("/")[2] for name in files.unusable} >= {
        "out.md",
        "folder.md",
        "large.md",
        "pipe.md",
    }
    assert "not used: .accord/commands/out.md: it is a link that leads out of the project" in files.warnings()
    assert "geheim" not in repr(files.warnings())


async def test_commands_folder_outside_the_project_is_left_out(
    project: Path, trust: TrustStore, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("x")
    (project / ".accord" / "commands").rmdir()
    (project / ".accord" / "commands").symlink_to(tmp_path / "elsewhere")
    files = project_files(str(project), trust)
    assert (files.untrusted, list(files.unusable)) == ({}, [".accord/commands/x.md"])


async def test_number_of_command_files_is_limited(project: Path, trust: TrustStore) -> None:
    for number in range(105):
        put(project, f".accord/commands/{number:03}.md", "x")
    files = project_files(str(project), trust)
    assert (len(files.untrusted), len(files.unusable)) == (100, 5)
