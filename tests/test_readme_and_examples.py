"""The README and the examples work exactly as written."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_example_client_drives_the_example_agent() -> None:
    said = run("examples/client.py", cwd=ROOT)
    assert "connected to example-agent" in said
    assert "tool: Sort notes.txt [completed]" in said
    assert "the turn ended: end_turn" in said
    assert said.endswith("notes.txt is now 'apples\\npears\\n'\n")


def test_the_coding_agent_works_for_the_example_client() -> None:
    said = run("examples/coding.py", cwd=ROOT)
    assert [line for line in said.splitlines() if line.startswith("  ")] == [
        "  ? Write notes.txt -> Allow",
        "  tool: Write notes.txt [completed]",
        "  ? Edit notes.txt -> Allow",
        "  tool: Edit notes.txt [completed]",
        "  tool: cat notes.txt [completed]",
        "  -- the turn ended: end_turn",
    ]
    assert said.endswith("notes.txt is now 'apples'\n")


def test_a_batch_works_in_many_folders_and_survives_one_failure(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"TODO {name}\n")
    prompt = "search TODO then write new.txt: made then write deploy/x.txt: no then run rm a.txt"
    folders = [str(tmp_path / name) for name in ("one", "two", "three", "missing")]
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home"), "ACCORD_MODEL": "rehearsal"}
    command = [sys.executable, "examples/batch.py", prompt, *folders]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (1, "")
    headings = [line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith("== ")]
    assert sorted(headings) == ["== missing", "== one", "== three", "== two"]
    assert done.stdout.count(": done") == 3
    for name in ("one", "two", "three"):
        made = sorted(path.name for path in (tmp_path / name).iterdir())
        assert made == ["a.txt", "new.txt"], "one rule allows writing, another forbids deploy, none allows rm"


def test_make_run_finishes_a_turn_of_the_coding_agent(tmp_path: Path) -> None:
    """Runs the recipe without the setup of the environment."""
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    line = recipe[1].replace("\\\n", " ").strip().removeprefix("@")
    line = line.replace("$(CURDIR)/$(VENV)/home", str(tmp_path)).replace(
        "$(BIN)/accord", f"{sys.executable} -m accord.cli"
    )
    done = subprocess.run(
        line,
        shell=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nDone.\n" in done.stdout


def test_the_agent_and_client_of_the_readme_work_as_printed(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["hello_agent.py", "hello_client.py"]
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    assert run("hello_client.py", cwd=tmp_path).endswith("You said: Hello\n")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_python_block_of_the_docs_compiles(page: Path) -> None:
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
        indented = "".join(f"    {line}" for line in code.splitlines(keepends=True))
        compile(f"async def block():\n{indented}    pass\n", f"{page.name}:{number}", "exec")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_page_starts_with_a_task_and_a_command(page: Path) -> None:
    title, blank, first, *_ = page.read_text().split("\n")
    assert title.startswith("# ")
    assert blank == ""
    assert re.match(r"[A-Z][a-z]+ ", first), "the first sentence names the task"
    assert "```" in page.read_text().partition("\n## ")[0]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them, and of the names that the site documents."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    names = set(re.findall(r"^::: (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | names


def test_every_linked_heading_exists() -> None:
    missing = [
        f"{page.name}: {target}#{anchor}"
        for page in [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "SECURITY.md",
            *sorted((ROOT / "docs").glob("*.md")),
        ]
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
        if anchor not in anchors(page.parent / target if target else page)
    ]
    assert missing == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or a name in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_every_name_of_the_package_in_the_docs_exists(page: Path) -> None:
    text = page.read_text().partition("## Old and new module names")[0]
    names = set(re.findall(r"`(accord(?:\.[A-Za-z_]\w*)+)[(`]", text))
    for module, imported in re.findall(r"^from (accord[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    assert sorted(name for name in names if not exists(name)) == []


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ],
    ids=lambda page: page.name,
)
def test_every_link_to_a_file_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150
