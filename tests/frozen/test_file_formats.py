"""Every file has a version: the first forms are read, older ones brought forward, newer ones refused.

`files/first` has the first form of each file, written by the commit that introduced it: the session store by
d48e220, trust and decisions by af8859e, the gateway's files by 9bb5b62, credentials by f14949e, `chat.json`
by 851e543, the prompt history by e7c6ce8 and the recording by 59b31ef.
"""

import json
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.frozen.commands import FILES, MADE_IN, accord, place, sha256

from accord.agent.tool_call_scope import PermissionAnswer
from accord.cluster.cluster_backup import read_manifest
from accord.coder.mcp.oauth import TokenFile
from accord.coder.mcp.server_interface import McpServerFailure
from accord.coder.models.credentials import read_keys, save_key
from accord.coder.permissions.project_files import ask_trust, project_files
from accord.errors import StoreError, UsageError
from accord.file_format import FileFormat, NewerFormat
from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.audit_log import AuditLog, verify_audit_log
from accord.gateway.access.browser_logins import BrowserLogins
from accord.policy.trust_store import TrustStore
from accord.store import open_store, repair
from accord.tui.chat_settings import read_settings, write_setting
from accord.tui.prompt_history import PromptHistory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the files hold POSIX paths")

ROOT = Path(__file__).parents[2]
FIRST = FILES / "first"
NEWER = {"version": 99, "somethingNew": {"of": "a newer Accord"}}


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first form of each file, in the folders of this user."""
    root = place(tmp_path / "first", FIRST)
    monkeypatch.setenv("ACCORD_HOME", str(root / "home"))
    return root


# All kinds of files

_REFUSED = "frozen/test_file_formats.py::test_a_newer_file_is_refused_in_one_line_and_kept"
_HERE = "frozen/test_file_formats.py::test_"
KINDS: dict[str, tuple[str, str]] = {
    "sessions.db": (
        "store/database",
        "store/test_store_file.py::test_a_newer_format_is_refused_with_advice_to_update",
    ),
    "search.db": (
        "frontend/session_search",
        "frontend/test_session_search.py::test_an_empty_query_and_a_newer_index_are_refused",
    ),
    "accord sessions export --format json": ("frontend/transcript", "only written"),
    "accord trace": ("trace/trace_reader", "trace/test_trace_views.py::test_a_usage_error_is_one_line"),
    "acp.json": ("frontend/agent_config/agent_list_formats", _REFUSED),
    "config.toml": ("coder/user_config", _REFUSED),
    "serve.json": ("cli/serve_command", _REFUSED),
    "accord check --script": ("check/check_script", _REFUSED),
    ".accord/permissions.toml": (
        "coder/permissions/project_files",
        _HERE + "newer_rules_of_a_project_ask_for_everything",
    ),
    "permissions.json": ("policy/permission_store", _REFUSED),
    "chat.json": ("tui/chat_settings", _HERE + "newer_chat_settings_are_refused_and_kept"),
    "credentials.json": ("coder/models/credentials", _REFUSED),
    "mcp-tokens.json": ("coder/mcp/oauth", _HERE + "newer_sign_ins_and_backups_are_refused"),
    "backup.json": ("cluster/cluster_backup", _HERE + "newer_sign_ins_and_backups_are_refused"),
    "checkpoints.json": (
        "frontend/checkpoints/checkpoint_store",
        "frontend/checkpoints/test_checkpoints.py::test_a_newer_format_is_neither_used_nor_changed",
    ),
    "agents/installed.json": ("frontend/agent_config/installed_agents", _REFUSED),
    "trust": ("policy/trust_store", _HERE + "newer_trust_gives_none_and_is_not_overwritten"),
    "gateway/tokens": ("gateway/access/access_tokens", _REFUSED),
    "gateway/browsers": ("gateway/access/browser_logins", _HERE + "newer_tokens_and_logins_let_no_one_in"),
    "gateway/push": (
        "gateway/access/push_devices",
        "gateway/notifications/test_push_endpoints.py::test_files_of_a_newer_version_are_not_used",
    ),
    "gateway/audit.jsonl": ("gateway/access/audit_log", _REFUSED),
    "decisions.jsonl": ("policy/audit_log", "only written"),
    "prompts": ("tui/prompt_history", _HERE + "a_newer_prompt_history_is_neither_read_nor_changed"),
}
"""Every kind of file: the module that knows its format, and the test of a newer one."""

NO_FORMAT = {
    "cli/provider_login": "adds a server to config.toml",
    "cluster/audit_stream": "a place in the audit log; without it, the copy starts anew",
    "cluster/server": "settings of another program, written at each start",
    "frontend/checkpoints/shadow_git": "a Git repository",
    "file_format": "writes the formats",
    "frontend/agent_config/jsonc": "files of the user and of other programs; keeps their version",
    "workspace/roots": "files of the user",
}
"""Modules that write files without a version, and why."""


def test_every_kind_of_file_has_a_version_and_a_test_of_a_newer_one() -> None:
    source, tests = ROOT / "src" / "accord", ROOT / "tests"
    table = (
        (ROOT / "docs" / "store.md").read_text("utf-8").partition("## Formats")[2].partition("\nFiles in")[0]
    )
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")][2:]
    listed = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert listed >= set(KINDS)
    assert [cell for cell in cells if not any(f"`{name}`" in cell for name in KINDS)] == []

    modules = {str(path.relative_to(source).with_suffix("")): path for path in source.rglob("*.py")}
    texts = {name: path.read_text("utf-8") for name, path in modules.items()}
    owners = {module for module, _ in KINDS.values()}
    for name, text in texts.items():
        writes = "FileFormat(" in text or re.search(r"(?<!def )\bwrite_atomically\(", text)
        known = name in owners or name in NO_FORMAT
        assert known or not writes, f"{name} writes a file: give it a FileFormat and a row of KINDS"
    for kind, (module, test) in KINDS.items():
        assert re.search("version|newer_format|FileFormat", texts[module]), (
            f"{module} has no version of {kind}"
        )
        path, _, name = test.partition("::")
        assert test == "only written" or f"def {name}(" in (tests / path).read_text("utf-8"), test


# The first forms


def test_the_first_session_store_is_read_and_goes_on(first: Path) -> None:
    with open_store() as store:
        kinds = [type(event).__name__ for event in store.events("first")]
        assert kinds == [
            "SessionOpened",
            "TurnStarted",
            "AgentThoughtChunk",
            "AgentMessageChunk",
            "AgentMessageChunk",
            "ToolCallChanged",
            "PermissionAsked",
            "PermissionAnswered",
            "ToolCallChanged",
            "PlanChanged",
            "ModeChanged",
            "SessionInfoUpdate",
            "UsageUpdate",
            "Unknown",
            "TurnEnded",
            "TurnStarted",
            "ToolCallChanged",
        ]
        state, closing = repair(store.events("first"))
        assert [(call.title, call.status) for call in state.tool_calls.values()] == [
            ("Edit a.txt", "completed"),
            ("Run it", "failed"),
        ]
        assert [type(event).__name__ for event in closing] == ["ToolCallChanged", "TurnEnded"]
        with store.journal("first") as journal:
            journal.append(*closing)
        assert store.summary("branch").title == "The branch"
        assert len(list(store.events("branch"))) == 5


def test_the_first_recording_is_shown(first: Path) -> None:
    done = accord("trace", "show", str(FIRST / "trace.jsonl"), home=first / "home")
    assert done.returncode == 0, done.stderr
    assert "Fix the test" in done.stdout
    assert "a line of the agent" in done.stdout


def test_first_trust_tokens_and_logins_count(first: Path) -> None:
    file = first / "project" / "acp.json"
    assert TrustStore().is_trusted(file, file.read_bytes())
    token = TokenStore().find("acc_frozen44_" + "A" * 43)
    assert token is not None
    rights = token.rights()
    assert (rights.read_only, rights.agents, rights.folders) == (
        True,
        frozenset(["accord"]),
        (str(first / "project"),),
    )
    assert not rights.may_add_mcp_servers
    logins = BrowserLogins()
    assert logins.token("first cookie") == "frozen44"
    logins.forget("frozen44")
    assert logins.token("first cookie") is None


def test_the_first_audit_log_is_continued(first: Path) -> None:
    AuditLog().record(None, "start")
    verified = verify_audit_log()
    assert (verified.unhashed, verified.lines) == (2, 1)
    lines = (first / "home" / "data" / "gateway" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line).get("version") for line in lines] == [None, None, 1]


def test_first_settings_keys_and_prompts_get_a_version_with_the_next_write(first: Path) -> None:
    home = first / "home"
    assert read_settings(()).theme == "dark"
    write_setting("diffs", "below")
    assert json.loads((home / "config" / "chat.json").read_text()) == {
        "version": 1,
        "theme": "dark",
        "notifyWhen": "always",
        "mouse": False,
        "diffs": "below",
    }
    assert (read_settings(()).diffs, read_settings(()).mouse) == ("below", False)

    assert read_keys()["google"].reveal() == "not-a-real-key"
    save_key("openai", "another-key")
    stored = json.loads((home / "config" / "credentials.json").read_text())
    assert stored == {"version": 1, "keys": {"google": "not-a-real-key", "openai": "another-key"}}

    prompts = home / "data" / "prompts"
    name = next(prompts.iterdir()).name
    assert name == sha256(f"{MADE_IN}/project")[:24] + ".jsonl"
    (prompts / name).rename(prompts / (sha256(str(first / "project"))[:24] + ".jsonl"))
    history = PromptHistory(str(first / "project"))
    assert history.texts == ["Fix the test", "And the other one"]
    history.add("And a third")
    assert PromptHistory(str(first / "project")).texts[2] == "And a third"
    other = PromptHistory(str(first))
    other.add("The first of its folder")
    assert PromptHistory(str(first)).texts == ["The first of its folder"]
    file = prompts / (sha256(str(first))[:24] + ".jsonl")
    assert file.read_text().splitlines()[0] == '{"version": 1}'


# Newer forms


NEWER_FILES: dict[str, tuple[str, ...]] = {
    "config/config.toml": ("agent",),
    "config/config.json": ("agent",),
    "config/serve.json": ("serve",),
    "config/credentials.json": ("agent", "--login", "google"),
    "config/acp.json": ("agents", "list"),
    "data/permissions.json": ("agent", "rules"),
    "data/agents/installed.json": ("agents", "update"),
    "script.json": ("check", "agent", "--script", "home/script.json", "--", "accord", "agent"),
    "data/gateway/audit.jsonl": ("serve", "audit", "verify"),
    "data/gateway/tokens/newer222.json": ("serve", "token", "revoke", "newer222"),
}


@pytest.mark.parametrize("name", NEWER_FILES)
def test_a_newer_file_is_refused_in_one_line_and_kept(tmp_path: Path, name: str) -> None:
    home = tmp_path.resolve() / "home"
    file = home / name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = "version = 99\nsomething_new = true\n" if file.suffix == ".toml" else json.dumps(NEWER) + "\n"
    file.write_text(text)
    file.chmod(0o600)
    done = accord(*NEWER_FILES[name], home=home, cwd=tmp_path, typed="some-key\n")
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    shown = "home/script.json" if name == "script.json" else file
    known = 2 if "tokens" in name else 1
    assert f"{shown} was written by a newer Accord (format 99, this one knows {known}): update Accord" in line
    assert file.read_text() == text


def test_config_files_may_name_their_version(tmp_path: Path) -> None:
    root = place(tmp_path)
    config = root / "home" / "config"
    for name in ("chat.json", "serve.json", "acp.json"):
        text = (config / name).read_text()
        (config / name).write_text(text.replace("{", '{"version": 1,', 1))
    toml = config / "config.toml"
    toml.write_text("version = 1\n" + toml.read_text())
    done = accord("run", "-a", "accord", "think: hello", home=root / "home", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "serve.json" in accord("doctor", home=root / "home", cwd=root).stdout
    keys = json.loads((config / "chat.json").read_text()).get("keys", {})
    assert read_settings(keys, config / "chat.json").keys == keys
    toml.write_text(toml.read_text().replace("version = 1\n", "version = 'one'\n"))
    done = accord("agent", home=root / "home", cwd=root)
    assert done.returncode == 2
    assert f"{toml}: version: it must be a whole number, 1 or more" in done.stderr


def test_newer_chat_settings_are_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(NEWER))
    with pytest.raises(NewerFormat, match="format 99, this one knows 1"):
        read_settings((), file)
    with pytest.raises(NewerFormat, match="update Accord"):
        write_setting("theme", "dark", file)
    assert json.loads(file.read_text()) == NEWER


def test_newer_sign_ins_and_backups_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    tokens, backup = tmp_path / "config" / "mcp-tokens.json", tmp_path / "backup.json"
    tokens.parent.mkdir()
    for file in (tokens, backup):
        file.write_text(json.dumps(NEWER))
        file.chmod(0o600)
    with pytest.raises(McpServerFailure, match="format 99, this one knows 1"):
        TokenFile("https://mcp.example/").remove()
    with pytest.raises(UsageError, match="format 99, this one knows 1"):
        read_manifest(tmp_path, "accord")
    assert json.loads(tokens.read_text()) == json.loads(backup.read_text()) == NEWER


def test_newer_trust_gives_none_and_is_not_overwritten(first: Path) -> None:
    file = first / "project" / "acp.json"
    content = file.read_bytes()
    (entry,) = (first / "home" / "data" / "trust").iterdir()
    newer = json.dumps({**json.loads(entry.read_text()), "version": 99})
    entry.write_text(newer)
    store = TrustStore()
    assert not store.is_trusted(file, content)
    assert store.is_distrusted(file)
    with pytest.raises(NewerFormat, match="update Accord"):
        store.trust(file, content)
    assert entry.read_text() == newer

    store.distrust(file)  # a command wrote it: also a newer Accord must ask again
    assert not store.is_trusted(file, content)
    assert entry.with_suffix(".newer").read_text() == newer
    store.trust(file, content)
    assert store.is_trusted(file, content)


async def test_a_yes_that_newer_trust_refuses_is_reported(first: Path) -> None:
    rules = first / "project" / ".accord" / "permissions.toml"
    rules.parent.mkdir()
    rules.write_text("default = 'deny'\n")
    TrustStore().trust(rules, rules.read_bytes())
    entry = first / "home" / "data" / "trust" / f"{sha256(str(rules))}.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "version": 99}))
    files = project_files(str(first / "project"))

    async def say_yes(title: str, content: Any, options: Any) -> PermissionAnswer:
        return PermissionAnswer(options[0])

    assert not await ask_trust(files, say_yes)
    assert files.trusted == {}
    assert [line for line in files.warnings() if "permissions.toml" in line and "update Accord" in line]


def test_newer_rules_of_a_project_ask_for_everything(first: Path) -> None:
    rules = first / "project" / ".accord" / "permissions.toml"
    rules.parent.mkdir()
    rules.write_text("version = 99\ndefault = 'allow'\n")
    TrustStore().trust(rules, rules.read_bytes())
    files = project_files(str(first / "project"))
    found = files.rules()
    assert found is not None
    assert found.default == "ask"
    assert "update Accord" in files.warnings()[0]
    rules.write_text("version = 1\ndefault = 'deny'\n")
    TrustStore().trust(rules, rules.read_bytes())
    found = project_files(str(first / "project")).rules()
    assert found is not None
    assert found.default == "deny"


async def test_newer_tokens_and_logins_let_no_one_in(first: Path) -> None:
    tokens = first / "home" / "data" / "gateway" / "tokens"
    token = tokens / "frozen44.json"
    token.write_text(json.dumps({**json.loads(token.read_text()), "version": 99}))
    store = TokenStore()
    assert store.find("acc_frozen44_" + "A" * 43) is None
    assert store.all() == []
    listed = accord("serve", "token", "list", home=first / "home")
    assert str(token) in listed.stderr
    logins = BrowserLogins()
    cookie = await logins.log_in("frozen44")
    login = first / "home" / "data" / "gateway" / "browsers" / sha256(cookie)
    assert json.loads(login.read_text()) == {"version": 2, "token": "frozen44"}
    assert logins.token(cookie) == "frozen44"
    login.write_text('{"version":3,"token":"frozen44"}')
    assert logins.token(cookie) is None


def test_a_newer_audit_log_is_not_continued(tmp_path: Path) -> None:
    errors: list[str] = []
    log = AuditLog(tmp_path / "audit.jsonl", on_error=errors.append)
    log.record(None, "start")
    log.check()
    before = log.path.read_bytes() + b'{"version":99,"seq":"two"}\n'
    log.path.write_bytes(before)
    log.record(None, "stop")
    assert "update Accord" in errors[0]
    assert log.missing_lines == 1
    assert log.path.read_bytes() == before
    with pytest.raises(NewerFormat, match="format 99"):
        log.check()
    with pytest.raises(NewerFormat, match="format 99"):
        verify_audit_log(log.path)


def test_a_newer_prompt_history_is_neither_read_nor_changed(first: Path) -> None:
    history = PromptHistory(str(first))
    file = first / "home" / "data" / "prompts" / (sha256(str(first))[:24] + ".jsonl")
    file.write_text('{"version": 99}\n{"text": "hello"}\n"old"\n')
    before = file.read_text()
    assert history.texts == []
    history.add("another")
    assert file.read_text() == before


# Migrations


class Renamed(msgspec.Struct):
    secrets: dict[str, str]
    note: str


def _rename(members: dict[str, Any]) -> dict[str, Any]:
    return {"secrets": members["keys"]}


def _annotate(members: dict[str, Any]) -> dict[str, Any]:
    return {**members, "note": "from version 2"}


def test_a_migration_runs_forward_and_keeps_a_backup(first: Path) -> None:
    file = first / "home" / "config" / "credentials.json"
    before = file.read_bytes()
    newest = FileFormat(3, {1: _rename, 2: _annotate})
    content = newest.decode(before, Renamed, file)
    assert content == Renamed({"google": "not-a-real-key"}, "from version 2")

    newest.write(file, content)
    backup = file.with_name("credentials.json.format-1")
    assert backup.read_bytes() == before
    assert os.stat(backup).st_mode & 0o077 == 0
    assert json.loads(file.read_text())["version"] == 3
    assert newest.decode(file.read_bytes(), Renamed, file) == content

    newest.write(file, Renamed({}, "later"))
    assert backup.read_bytes() == before
    with pytest.raises(NewerFormat, match="format 3, this one knows 2"):
        FileFormat(2).write(file, content)
    assert newest.decode(file.read_bytes(), Renamed, file).note == "later"
    with pytest.raises(UsageError, match="format 3, this one knows 1"):
        read_keys(file)


def test_the_first_store_is_migrated_with_a_backup(first: Path) -> None:
    from accord.store.database import MIGRATIONS, upgrade

    path = first / "home" / "data" / "sessions.db"
    copy = shutil.copy(path, first / "copy.db")
    connection = sqlite3.connect(copy, isolation_level=None)
    upgrade(connection, (*MIGRATIONS, ("ALTER TABLE heads ADD COLUMN note TEXT NOT NULL DEFAULT ''",)))
    assert connection.execute("SELECT session, note FROM heads ORDER BY log").fetchall() == [
        ("first", ""),
        ("branch", ""),
    ]
    connection.close()
    with pytest.raises(StoreError, match="format 2, this one knows 1"):
        open_store(copy)
    with open_store(f"{copy}.format-1") as store:
        assert len(list(store.events("first"))) == 17
