"""A project on disk for policy tests: two roots, a home folder, secrets, and links that lead outside."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accord.policy import (
    ActionRequest,
    Decision,
    Grants,
    Policy,
    Rules,
    SessionDirectories,
    UserAnswer,
    read_permissions,
    remember,
)


@dataclass
class Project:
    """The folders of a session, and shortcuts to build and decide requests."""

    root: Path
    extra: Path
    home: Path
    elsewhere: Path
    directories: SessionDirectories

    def request(self, **more: Any) -> ActionRequest:
        defaults: dict[str, Any] = {"directories": self.directories, "mode": "ask"}
        return ActionRequest(**(defaults | more))

    def run(self, line: str | tuple[str, ...], **more: Any) -> ActionRequest:
        return self.request(
            **({"tool": "bash", "category": "execute", "kind": "execute", "command": line} | more)
        )

    def read(self, path: str | Path, **more: Any) -> ActionRequest:
        return self.request(
            **({"tool": "read_file", "category": "read-only", "kind": "read", "paths": (path,)} | more)
        )

    def edit(self, path: str | Path, **more: Any) -> ActionRequest:
        return self.request(
            **({"tool": "edit_file", "category": "write", "kind": "edit", "paths": (path,)} | more)
        )

    def fetch(self, url: str, **more: Any) -> ActionRequest:
        return self.request(
            **({"tool": "web_fetch", "category": "read-only", "kind": "fetch", "url": url} | more)
        )

    def mcp(self, **more: Any) -> ActionRequest:
        return self.request(**({"tool": "mcp__db__query", "category": "external", "kind": "other"} | more))

    def verdict(self, line: str, user: Any = None, project: Any = None, **more: Any) -> str:
        return self.decide(self.run(line, **more), user, project).effect

    def decide(self, request: ActionRequest, user: Any = None, project: Any = None) -> Decision:
        return Policy(rules(user), None if project is None else rules(project)).decide(request)


def rules(value: Any) -> Rules:
    return value if isinstance(value, Rules) else read_permissions({} if value is None else value)


def make_project(folder: Path) -> Project:
    root, extra, home, elsewhere = (folder / name for name in ("work", "more", "home", "elsewhere"))
    for path in ("src/deep", "build", "docs", ".git/hooks", "certs", "with space"):
        (root / path).mkdir(parents=True)
    for path in (extra, home / ".ssh", home / "notes", elsewhere):
        path.mkdir(parents=True)
    for path in (
        root / "a.py", root / "b.py", root / "README.md", root / "src/main.py", root / "src/deep/x.py",
        root / "docs/guide.md", root / ".env", root / ".env.example", root / "certs/server.pem",
        root / "data.json", root / "run.sh", root / "build/out", extra / "more.txt", home / ".ssh/id_rsa",
        home / "notes/todo.md", elsewhere / "other.txt",
    ):  # fmt: skip
        path.write_text("x\n")
    (root / "leads_out").symlink_to(elsewhere)
    (root / "harmless_name").symlink_to(root / ".env")
    (root / "inside_link").symlink_to(root / "src")
    return Project(root, extra, home, elsewhere, SessionDirectories.of(root, [extra], home=home))


def granted(*answers: tuple[ActionRequest, str], user: Any = None) -> Grants:
    """Return the grants of a session in which the requests were answered like this."""
    grants = Grants()
    for request, kind in answers:
        with_grants = replace(request, grants=grants)
        decision = Policy(rules(user)).decide(with_grants)
        assert decision.effect == "ask", decision
        remember(with_grants, decision, UserAnswer(kind))  # type: ignore[arg-type]
    return grants


def always(project: Project, *lines: str) -> Grants:
    """Return the grants of a session in which these lines were always allowed."""
    return granted(*((project.run(line), "allow_always") for line in lines))
