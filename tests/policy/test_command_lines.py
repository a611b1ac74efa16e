"""Decisions about hundreds of command lines: lines that only read run without a question, all others ask."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.command_line_cases import ALLOWED, ASKED, UNREADABLE, split
from tests.policy.project import Project, always

from accord.policy import SessionDirectories


@pytest.mark.parametrize("line", split(ALLOWED))
def test_a_line_that_only_reads_inside_the_roots_is_allowed(project: Project, line: str):
    decision = project.decide(project.run(line))
    assert decision.effect == "allow", decision


@pytest.mark.parametrize("line", split(ASKED))
def test_any_other_line_is_asked_for(project: Project, line: str):
    decision = project.decide(project.run(line))
    assert decision.effect == "ask", decision
    assert "\n" not in decision.reason


@pytest.mark.parametrize("line", UNREADABLE)
@pytest.mark.parametrize("mode", ["ask", "workspace-write", "full-access"])
def test_a_line_that_cannot_be_parsed_is_always_asked_for(project: Project, line: str, mode: str):
    decision = project.decide(project.run(line, mode=mode, sandboxed=True), {"allow": ["execute"]})
    if line in ("ｌｓ", "lѕ"):  # the parser reads it as a program of another name
        decision = project.decide(project.run(line))
    assert decision.effect == "ask", decision


@pytest.mark.parametrize("line", split(ASKED))
def test_read_only_modes_never_allow_a_line_that_is_asked_for(project: Project, line: str):
    for mode in ("read-only", "plan"):
        assert project.verdict(line, mode=mode) in ("ask", "deny")


@pytest.mark.parametrize("line", ["f() { ls; }; f", "f () (ls)", "function f { ls; }; f"])
def test_the_reason_names_a_function_that_a_line_defines(project: Project, line: str):
    assert "it defines a function, f" in project.decide(project.run(line)).reason


WITHOUT_PARSER = """
import sys
sys.modules["tree_sitter_bash"] = None
from accord.policy import ActionRequest, Policy, SessionDirectories
for line in ("ls", "rm -rf /"):
    for mode in ("ask", "full-access"):
        request = ActionRequest(
            directories=SessionDirectories.of("/tmp"),
            category="execute", kind="execute", command=line, mode=mode,
        )
        print(Policy().decide(request).effect)
"""


def test_without_a_parser_every_line_is_asked_for():
    output = subprocess.run(
        [sys.executable, "-c", WITHOUT_PARSER], capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == ["ask", "ask", "deny", "deny"]


def test_git_in_a_planted_repository_is_asked_for(project: Project, tmp_path: Path):
    # The settings of a repository can name programs that git runs, and a command can create one in a root.
    (tmp_path / "project" / ".git").mkdir(parents=True)
    planted = tmp_path / "project" / "planted"
    for name in ("objects", "refs", "deep"):
        (planted / name).mkdir(parents=True)
    (planted / "HEAD").write_text("ref: refs/heads/main")
    directories = SessionDirectories.of(tmp_path / "project", home=project.home)
    for line in (
        "git -C planted status",
        "cd planted && git log",
        "cd planted/deep; git diff",
        "git -C planted/deep log",
    ):
        assert project.verdict(line, directories=directories) == "ask", line
    assert project.verdict("git status && git -C . log", directories=directories) == "allow"


def test_paths_of_git_are_resolved_from_its_start_folder(project: Project):
    assert project.verdict("git -C .. diff ../elsewhere/other.txt", cwd=project.root / "src") == "ask"
    # relative to the session folder, the path is outside
    assert project.verdict("git -C src diff ../a.py") == "ask"
    assert project.verdict("git -C src diff main.py") == "allow"


COVERED = [
    ("npm test", "npm test"),
    ("npm test", "npm test -- --watch"),
    ("npm test", "npm test && ls"),
    ("npm test", "cd src && npm test | tail -5"),
    ("npm test", "bash -lc 'npm test'"),
    ("npm test", "timeout 60 npm test"),
    ("npm test", "CI=1 npm test"),
    ("npm test", "NODE_ENV=test npm test"),
    ("git commit -m x", "git commit -m y"),
    ("git commit -m x", "git -C src commit -m y"),
    ("git commit -m x", 'git commit -m "$(cat README.md)"'),
    ("git commit -m x", "git commit -m \"$(cat <<'EOF'\nsome text\nEOF\n)\""),
    ("git add a.py", "git add src/*.py"),
    ("npm run build", "npm run build"),
    ("python -m pytest", "python -m pytest -q tests"),
    ("python a.py", "python ./a.py --x"),
    ("./run.sh", "cd src && ../run.sh"),
    ("./run.sh", "bash -c './run.sh'"),
    ("make test", "make test"),
    ("make test", "make -C src test"),
    ("cargo test", "cargo test --all"),
    ("docker compose up", "docker compose up -d"),
    ("uv run pytest", "uv run pytest -q"),
    ("pytest", "pytest -q"),
    ("touch x", "touch y src/z"),
    ("git add . && npm test", "npm test; git add a.py"),
]
NOT_COVERED = [
    ("npm test", "npm install"),
    ("npm test", "npm run test2"),
    ("npm test", "npm test && rm x"),
    ("npm test", "npm test | sh"),
    ("npm test", "npm test $(rm x)"),
    ("npm test", "npm test > out"),
    ("npm test", "npm test; npm publish"),
    ("npm test", "sudo npm test"),
    ("npm test", "PATH=. npm test"),
    ("npm test", "NODE_OPTIONS=--require=./x npm test"),
    ("npm test", "npm --script-shell=x test"),
    ("npm test", "npm test --script-shell x"),
    ("npm test", "./npm test"),
    ("npm test", "src/npm test"),
    ("npm test", "/tmp/npm test"),
    ("npm test", "npm test ../elsewhere"),
    ("npm test", "npm test /etc"),
    ("npm test", "npm test .env"),
    ("npm test", "$X npm test"),
    ("npm test", "npm $X"),
    ("npm test", "n$X test"),
    ("npm test", "function npm { rm x; }; npm test"),
    ("npm test", "npm test 'unclosed"),
    ("npm run build", "npm run deploy"),
    ("npm run build", "npm run"),
    ("git commit -m x", "git push"),
    ("git commit -m x", "git -c core.editor=evil commit"),
    ("git commit -m x", "git -C ../elsewhere commit"),
    ("git commit -m x", "git commit $X"),
    ("git commit -m x", "git commit -m $(rm x)"),
    ("git push", "git push --force"),
    ("git push", "git push -f"),
    ("git push", "git push -uf origin x"),
    ("git push", "git push --forc"),
    ("git push", "git push origin +main"),
    ("git push", "git push origin :main"),
    ("git push", "git push --delete origin x"),
    ("git push", "git push --receive-pack=evil"),
    ("git push", "git push $X"),
    ("git fetch", "git fetch --upload-pack=evil"),
    ("git fetch", "git fetch ext::sh"),
    ("git rebase main", "git rebase -x 'rm x' main"),
    ("git rebase main", "git rebase --exec='rm x' main"),
    ("python -m pytest", "python -m http.server"),
    ("python -m pytest", "python -c 'import os'"),
    ("python a.py", "python b.py"),
    ("python a.py", "cd src && python a.py"),
    ("./run.sh", "cd src && ./run.sh"),
    ("make test", "make install"),
    ("make test", "make test SHELL=evil"),
    ("make test", "make -f evil test"),
    ("go test ./...", "go test -exec evil ./..."),
    ("go test ./...", "go run x.go"),
    ("cargo test", "cargo test --config evil"),
    ("docker compose up", "docker run x"),
    ("uv run pytest", "uv run python -c 'x'"),
    ("uv run pytest", "uv run rm x"),
    ("touch x", "touch ../x"),
    ("touch x", "touch ~/x"),
    ("touch x", "touch .git/hooks/pre-commit"),
    ("touch x", "touch .env"),
    ("touch x", "touch leads_out/x"),
    ("cp a.py b.py", "cp a.py /tmp/x"),
    ("cp a.py b.py", "cp .env b.py"),
    ("cp a.py b.py", "cp a.py .vscode/tasks.json"),
    ("tee out", "tee .git/config"),
]
WITHOUT_SCOPE = [
    "rm x",
    "sudo ls",
    "python -c 1",
    "node -e 1",
    "bash run.sh",
    "curl https://example.com",
    "ls | xargs rm",
    'eval "$X"',
    "$X",
    "docker run x",
    "git push --force",
    "git config user.name x",
    "find . -delete -name x",
    "ssh host",
    "sed -i s/a/b/ a.py",
    "npm test; rm x",
    "npm test 'unclosed",
    "env",
    "echo $API_KEY",
    "cat $X",
]


@pytest.mark.parametrize(("agreed", "line"), COVERED)
def test_always_covers_the_program_with_its_subcommand(project: Project, agreed: str, line: str):
    grants = always(project, agreed)
    assert project.verdict(line, grants=grants) == "allow"


@pytest.mark.parametrize(("agreed", "line"), NOT_COVERED)
def test_always_covers_no_other_command(project: Project, agreed: str, line: str):
    grants = always(project, agreed)
    assert project.verdict(agreed, grants=grants) == "allow"
    assert project.verdict(line, grants=grants) != "allow"


@pytest.mark.parametrize("line", WITHOUT_SCOPE)
def test_always_is_not_offered_when_its_scope_is_unknown(project: Project, line: str):
    decision = project.decide(project.run(line))
    assert (decision.effect, decision.scope) == ("ask", None)
