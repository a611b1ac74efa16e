"""What each mode decides for each category of request, and the four default words of a client."""

from dataclasses import replace

import pytest
from tests.policy.project import Project, always, granted

from accord.policy import MODE_DESCRIPTIONS, MODES, ActionRequest, Grants, category_of

# The columns: read, write, command, command in the sandbox, external tool, read-only external tool, read
# outside, write outside, secret, fetch from a new host, leave plan mode.
TABLE = {
    "read-only": "allow deny deny deny deny allow ask deny ask ask ask",
    "ask": "allow ask ask ask ask allow ask ask ask ask ask",
    "workspace-write": "allow allow ask allow ask allow ask ask ask ask ask",
    "full-access": "allow allow allow allow allow allow allow allow ask allow allow",
    "plan": "allow deny deny deny deny allow ask deny ask ask ask",
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_decides_each_category(project: Project, mode: str):
    requests = [
        project.read("a.py"),
        project.edit("a.py"),
        project.run("npm test"),
        project.run("npm test", sandboxed=True),
        project.mcp(),
        project.mcp(read_only=True),
        project.read(project.elsewhere / "other.txt"),
        project.edit(project.elsewhere / "other.txt"),
        project.read(".env"),
        project.fetch("https://example.com/x"),
        project.request(tool="leave_plan_mode", category="write", kind="switch_mode"),
    ]
    effects = [project.decide(with_mode(mode, request)).effect for request in requests]
    assert " ".join(effects) == TABLE[mode]


def test_every_mode_has_a_description():
    assert set(MODE_DESCRIPTIONS) == set(MODES) == set(TABLE)


@pytest.mark.parametrize(
    ("word", "effects"),
    [
        ("ask", "ask ask ask ask"),
        ("reads", "allow ask ask ask"),
        ("all", "allow allow allow allow"),
        ("none", "deny deny deny deny"),
    ],
)
def test_default_setting_of_a_client(project: Project, word: str, effects: str):
    requests = [
        project.read("a.py", mode=None),
        project.edit("a.py", mode=None),
        project.run("ls", mode=None),
        project.request(tool="", category="external", mode=None),
    ]
    assert " ".join(project.decide(request, word).effect for request in requests) == effects


@pytest.mark.rule("accord.only-official-read-kind")
def test_automatic_approval_uses_the_kind_as_it_was_sent(project: Project):
    def sent(kind: str | None) -> str:
        request = project.request(category=category_of(kind), kind=kind, mode=None)  # type: ignore[arg-type]
        return project.decide(request, "reads").effect

    assert [sent("read"), sent("search")] == ["allow", "allow"]
    assert {sent(kind) for kind in (None, "other", "edit", "execute", "fetch", "think", "switch_mode")} == {
        "ask"
    }


def test_a_client_asks_for_reads_outside_and_of_secrets(project: Project):
    assert project.decide(project.read("/etc/passwd", mode=None), "reads").effect == "ask"
    assert project.decide(project.read(".env", mode=None), "reads").effect == "ask"


@pytest.mark.parametrize("mode", ["read-only", "plan"])
def test_read_only_modes_override_grants_and_rules(project: Project, mode: str):
    grants = granted((project.run("npm test"), "allow_always"), (project.edit("a.py"), "allow_always"))
    user = {"allow": ["edit", {"command": "npm *"}], "default": "all"}
    for request in (project.run("npm test"), project.edit("a.py"), project.run("$X"), project.run("ls 'x")):
        assert project.decide(with_mode(mode, request, grants), user).effect == "deny"
    assert project.decide(with_mode(mode, project.run("git log | head"), grants)).effect == "allow"


def test_workspace_write_allows_commands_only_in_the_sandbox(project: Project):
    for line in (
        "npm test",
        "echo x > out",
        "for f in *; do $PY $f; done",
        "grep -r x .",
        "mkdir -p a/b && touch a/b/c",
    ):
        assert project.verdict(line, mode="workspace-write", sandboxed=True) == "allow", line
        assert project.verdict(line, mode="workspace-write") == "ask", line
    for line in (
        "echo x > ../out",
        "cat .env",
        "cp a.py .git/hooks/pre-commit",
        "ls 'x",
        "echo x > .accord/rules.json",
    ):
        assert project.verdict(line, mode="workspace-write", sandboxed=True) == "ask", line


def test_workspace_write_asks_for_files_that_configure_other_programs(project: Project):
    for path in (
        ".git/hooks/pre-commit",
        ".git/HEAD",
        "AGENTS.md",
        "sub/CLAUDE.md",
        ".accord/commands/x.md",
        "acp.json",
        ".vscode/tasks.json",
        ".mcp.json",
    ):
        assert project.decide(project.edit(path, mode="workspace-write")).rule == "steering"
        assert project.decide(project.read(path, mode="workspace-write")).effect == "allow"
    for path in ("a.py", "src/new.py", "git/hooks", project.extra / "new.txt"):
        assert project.decide(project.edit(path, mode="workspace-write")).effect == "allow"


def test_full_access_asks_for_secrets_and_unparsable_lines(project: Project):
    assert project.verdict("cat .env", mode="full-access") == "ask"
    assert project.verdict("cat ~/.ssh/id_rsa", mode="full-access") == "ask"
    assert project.verdict("ls 'x", mode="full-access") == "ask"
    assert project.verdict("$X; cat /etc/hosts; sudo ls", mode="full-access") == "allow"


def test_full_access_asks_for_unreadable_commands_when_command_rules_exist(project: Project):
    assert project.verdict("$X", {"deny": [{"command": "rm *"}]}, mode="full-access") == "ask"
    assert project.verdict("$X", {"deny": [{"path": "x"}]}, mode="full-access") == "allow"


def test_a_line_that_starts_outside_the_roots_is_asked_for(project: Project):
    assert project.verdict("ls", cwd=project.elsewhere) == "ask"
    assert project.verdict("ls", cwd=project.root / "src") == "allow"
    assert project.verdict("cat ../a.py", cwd=project.root / "src") == "allow"
    assert project.verdict("cat ../a.py") == "ask"
    assert project.verdict("rm -rf *", cwd="/", mode="full-access") == "deny"


def test_grants_of_one_session_do_not_apply_to_another(project: Project):
    grants = always(project, "npm test")
    assert project.verdict("npm test", grants=grants) == "allow"
    assert project.verdict("npm test") == "ask"


def with_mode(mode: str, request: ActionRequest, grants: Grants | None = None) -> ActionRequest:
    return replace(request, mode=mode, grants=grants or request.grants)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["$X y", "f() { ls; }; f", "eval $X"])
def test_a_stricter_default_also_asks_about_lines_that_cannot_be_checked(project: Project, line: str):
    request = project.run(line, mode="full-access")
    assert project.decide(request).effect == "allow"
    assert project.decide(request, {"default": "ask"}).effect == "ask"
    assert project.decide(request, {"default": "none"}).effect == "deny"
