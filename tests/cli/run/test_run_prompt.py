"""`accord run`: the prompt that the agent receives."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent

from accord.cli import main
from accord.cli.run_command import missing_separator_hint, parser, read_arguments

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="
)


def received_blocks(
    harness: RunHarness, *words: str, prompt_capabilities: Any = None, stdin: str | None = None
) -> list[dict[str, Any]]:
    """Return the content blocks that the agent received."""
    capabilities = json.dumps({"promptCapabilities": prompt_capabilities or {}})
    ran = harness.run("--format", "quiet", *words, *odd_agent("echo"), stdin=stdin, CAPABILITIES=capabilities)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_the_prompt_comes_from_the_arguments(harness: RunHarness) -> None:
    assert received_blocks(harness, "fix", "the test") == [text("fix the test")]


def test_an_agent_at_the_end_of_the_prompt_gives_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("todo_agent.py").write_text("import accord\n")
    Path("main.py").write_text("print(1)\n")
    hint = missing_separator_hint(read_arguments(["hello", "todo_agent.py"]))
    assert hint is not None
    assert hint.endswith("add -- python todo_agent.py")
    for words in (
        ["explain", "main.py"],
        ["hello", "--", "python", "todo_agent.py"],
        ["-a", "accord", "x", "todo_agent.py"],
    ):
        assert missing_separator_hint(read_arguments(words)) is None


def test_without_arguments_the_prompt_comes_from_stdin(harness: RunHarness) -> None:
    assert received_blocks(harness, stdin="fix the test\n") == [text("fix the test")]


def test_a_dash_inserts_stdin(harness: RunHarness) -> None:
    assert received_blocks(harness, "Review:", "-", stdin="+ a line\n") == [text("Review:\n\n+ a line")]


def test_stdin_is_not_read_when_a_prompt_is_given(harness: RunHarness) -> None:
    assert received_blocks(harness, "fix the test", stdin="not this") == [text("fix the test")]


def test_the_prompt_comes_from_a_file(harness: RunHarness) -> None:
    (harness.cwd / "task.md").write_text("Do it\nwell\n")
    assert received_blocks(harness, "--file", "task.md") == [text("Do it\nwell")]
    assert received_blocks(harness, "First this.", "--file", "task.md") == [
        text("First this.\n\nDo it\nwell")
    ]


def test_a_mention_is_sent_as_a_resource_link(harness: RunHarness) -> None:
    (harness.cwd / "a.py").write_text("x = 1\n")
    (harness.cwd / "with space.md").write_text("y")
    (harness.cwd / "src").mkdir()
    _, *links = received_blocks(harness, 'Look at @a.py, @"with space.md" and (@src), mail a@b.c')
    assert links == [
        {"type": "resource_link", "name": "a.py", "uri": (harness.cwd / "a.py").as_uri(),
         "mimeType": "text/x-python", "size": 6},
        {"type": "resource_link", "name": "with space.md", "uri": (harness.cwd / "with space.md").as_uri(),
         "mimeType": "text/markdown", "size": 1},
        {"type": "resource_link", "name": "src", "uri": (harness.cwd / "src").as_uri(),
         "mimeType": "inode/directory"},
    ]  # fmt: skip


def test_a_mention_is_embedded_when_the_agent_supports_it(harness: RunHarness) -> None:
    (harness.cwd / "a.py").write_text("x = 1\n")
    _, block = received_blocks(harness, "Look at @a.py.", prompt_capabilities={"embeddedContext": True})
    assert block == {
        "type": "resource",
        "resource": {"uri": (harness.cwd / "a.py").as_uri(), "text": "x = 1\n", "mimeType": "text/x-python"},
    }


def test_a_mention_of_a_secret_or_outside_file_is_sent_as_text(harness: RunHarness) -> None:
    (harness.cwd / ".env").write_text("KEY=1")
    (harness.cwd / "out").symlink_to("/etc")
    prompt = "Look at @.env @/etc/hostname @out/hostname @no/such @docs:note://1 @someone"
    ran = harness.run("--format", "quiet", *odd_agent("echo"), stdin=prompt)
    assert json.loads(ran.out) == [text(prompt)]
    assert ran.err.splitlines() == [
        "accord run: @.env may contain secrets and is sent as text; use --attach to send it",
        "accord run: @/etc/hostname is outside the session's directories and is sent as text; "
        "use --attach to send it",
        "accord run: @out/hostname is outside the session's directories and is sent as text; "
        "use --attach to send it",
        "accord run: @no/such does not exist and is sent as text",
    ]


def test_an_attached_image_is_sent_as_image_when_supported(harness: RunHarness) -> None:
    picture = harness.cwd / "shot.png"
    picture.write_bytes(PNG)
    _, block = received_blocks(harness, "Look", "--attach", "shot.png", prompt_capabilities={"image": True})
    assert block == {
        "type": "image",
        "data": base64.b64encode(PNG).decode(),
        "mimeType": "image/png",
        "uri": picture.as_uri(),
    }


def test_the_image_type_is_detected_from_the_content(harness: RunHarness) -> None:
    (harness.cwd / "shot").write_bytes(PNG)
    (harness.cwd / "shot.png").write_bytes(b"\xff\xd8\xff\xe0 and so on")
    (harness.cwd / "shot.txt").write_bytes(b"RIFF\1\2\3\4WEBP and so on")
    names = ("shot", "shot.png", "shot.txt")
    _, *blocks = received_blocks(
        harness,
        "Look",
        *(word for name in names for word in ("--attach", name)),
        prompt_capabilities={"image": True},
    )
    assert [block["mimeType"] for block in blocks] == ["image/png", "image/jpeg", "image/webp"]
    assert {block["type"] for block in blocks} == {"image"}


@pytest.mark.rule("prompt.blocks-need-capability")
def test_an_attached_image_is_sent_as_link_when_images_are_not_supported(harness: RunHarness) -> None:
    (harness.cwd / "shot.png").write_bytes(PNG)
    ran = harness.run("Look", "--attach", "shot.png", "--format", "quiet", *odd_agent("echo"))
    assert json.loads(ran.out)[1]["type"] == "resource_link"
    assert "is sent as a link: the agent does not support images in prompts" in ran.err


def test_an_attached_file_is_embedded_as_text_or_bytes(harness: RunHarness) -> None:
    (harness.cwd / "notes.txt").write_text("hello")
    (harness.cwd / "data.bin").write_bytes(b"\0\1")
    _, notes, data = received_blocks(
        harness,
        "Look",
        "--attach",
        "notes.txt",
        "--attach",
        "data.bin",
        prompt_capabilities={"embeddedContext": True},
    )
    assert notes["resource"]["text"] == "hello"
    assert data["resource"]["blob"] == base64.b64encode(b"\0\1").decode()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "the prompt is empty"),
        (("",), "the prompt is empty"),
        (("x", "--attach", "missing.png"), "--attach 'missing.png' does not exist"),
        (("x", "--file", "missing"), "cannot read --file 'missing' (No such file or directory)"),
        (("x", "--cwd", "missing"), "--cwd 'missing' is not a folder"),
        (("x", "--add-dir", "missing"), "--add-dir 'missing' is not a folder"),
        (("x", "--set", "nothing"), "--set 'nothing' is not KEY=VALUE"),
        (("x", "--timeout", "0"), "--timeout '0' is not a number of seconds above 0"),
        (("x", "--deadline", "soon"), "--deadline 'soon' is not a number of seconds above 0"),
        (
            ("x", "--continue", "--session", "1"),
            "--continue and --session exclude each other; use one of them",
        ),
        (("x", "-a", "claude", "--", "cat"), "-a claude and -- cat both name an agent; use one of them"),
        (("x", "--"), "missing agent command after `--`"),
        (("x", "--permissions", "some"), "argument --permissions: invalid choice: 'some'"),
        (("x", "-a", "no-such-agent"), "unknown agent 'no-such-agent'"),
        (("x", "-a", ""), "--agent has an empty value; omit the option or pass a value"),
    ],
)
def test_wrong_usage_is_a_one_line_error(
    harness: RunHarness,
    words: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(harness.cwd)
    monkeypatch.setenv("ACCORD_HOME", str(harness.home))
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["run", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"accord run: {expected}")


def test_help_lists_options_and_exit_codes(harness: RunHarness) -> None:
    ran = harness.run("--help")
    assert ran.code == 0
    assert ran.out.startswith("usage: accord run [OPTIONS] [PROMPT ... | -] [-- COMMAND ...]")
    for word in ("--permissions", "--deadline", "Exit codes: 0 done"):
        assert word in ran.out


def test_every_option_is_used_in_a_test() -> None:
    """An option that is parsed but not used is an easy mistake."""
    folder = Path(__file__).parent
    other = ("test_env_option.py", "test_worktrees_command.py")
    files = [*folder.glob("test_*.py"), *(folder.parent / name for name in other)]
    tests = "".join(file.read_text() for file in files)
    options = {
        word for action in parser()._actions for word in action.option_strings if word.startswith("--")
    }
    assert {option for option in options if f'"{option}"' not in tests} == set()
