"""`accord run`: what the agent is sent."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.running import Place, odd

from accord.cli import main
from accord.cli.running.arguments import parser

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="
)


def sent(place: Place, *words: str, takes: Any = None, stdin: str | None = None) -> list[dict[str, Any]]:
    """The blocks that the agent got."""
    capabilities = json.dumps({"promptCapabilities": takes or {}})
    ran = place.run("--format", "quiet", *words, *odd("echo"), stdin=stdin, CAPABILITIES=capabilities)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_the_prompt_comes_from_the_arguments(place: Place) -> None:
    assert sent(place, "fix", "the test") == [text("fix the test")]


def test_the_prompt_comes_from_stdin_where_no_other_is_given(place: Place) -> None:
    assert sent(place, stdin="fix the test\n") == [text("fix the test")]


def test_a_dash_is_stdin_in_its_place(place: Place) -> None:
    assert sent(place, "Review:", "-", stdin="+ a line\n") == [text("Review:\n\n+ a line")]


def test_stdin_is_left_alone_where_there_is_a_prompt(place: Place) -> None:
    assert sent(place, "fix the test", stdin="not this") == [text("fix the test")]


def test_the_prompt_comes_from_a_file(place: Place) -> None:
    (place.cwd / "task.md").write_text("Do it\nwell\n")
    assert sent(place, "--file", "task.md") == [text("Do it\nwell")]
    assert sent(place, "First this.", "--file", "task.md") == [text("First this.\n\nDo it\nwell")]


def test_a_mention_is_a_link_for_every_agent(place: Place) -> None:
    (place.cwd / "a.py").write_text("x = 1\n")
    (place.cwd / "with space.md").write_text("y")
    (place.cwd / "src").mkdir()
    _, *links = sent(place, 'Look at @a.py, @"with space.md" and (@src), mail a@b.c')
    assert links == [
        {"type": "resource_link", "name": "a.py", "uri": (place.cwd / "a.py").as_uri(), "mimeType": "text/x-python", "size": 6},
        {"type": "resource_link", "name": "with space.md", "uri": (place.cwd / "with space.md").as_uri(), "mimeType": "text/markdown", "size": 1},
        {"type": "resource_link", "name": "src", "uri": (place.cwd / "src").as_uri(), "mimeType": "inode/directory"},
    ]  # fmt: skip


def test_a_mention_is_embedded_where_the_agent_takes_that(place: Place) -> None:
    (place.cwd / "a.py").write_text("x = 1\n")
    _, block = sent(place, "Look at @a.py.", takes={"embeddedContext": True})
    assert block == {
        "type": "resource",
        "resource": {"uri": (place.cwd / "a.py").as_uri(), "text": "x = 1\n", "mimeType": "text/x-python"},
    }


def test_a_mention_reaches_neither_secrets_nor_what_lies_outside(place: Place) -> None:
    (place.cwd / ".env").write_text("KEY=1")
    (place.cwd / "out").symlink_to("/etc")
    prompt = "Look at @.env @/etc/hostname @out/hostname @no/such @someone"
    ran = place.run("--format", "quiet", *odd("echo"), stdin=prompt)
    assert json.loads(ran.out) == [text(prompt)]
    assert ran.err.splitlines() == [
        "accord run: @.env may hold secrets: it is sent as text; --attach takes it along",
        "accord run: @/etc/hostname lies outside the session's folders: it is sent as text; --attach takes it along",
        "accord run: @out/hostname lies outside the session's folders: it is sent as text; --attach takes it along",
        "accord run: @no/such: there is no such file; it is sent as text",
    ]


def test_an_attached_image_goes_as_one_where_the_agent_takes_images(place: Place) -> None:
    picture = place.cwd / "shot.png"
    picture.write_bytes(PNG)
    _, block = sent(place, "Look", "--attach", "shot.png", takes={"image": True})
    assert block == {
        "type": "image",
        "data": base64.b64encode(PNG).decode(),
        "mimeType": "image/png",
        "uri": picture.as_uri(),
    }


def test_a_picture_is_known_by_what_it_is_not_by_what_it_is_called(place: Place) -> None:
    (place.cwd / "shot").write_bytes(PNG)
    (place.cwd / "shot.png").write_bytes(b"\xff\xd8\xff\xe0 and so on")
    (place.cwd / "shot.txt").write_bytes(b"RIFF\1\2\3\4WEBP and so on")
    names = ("shot", "shot.png", "shot.txt")
    _, *blocks = sent(
        place, "Look", *(word for name in names for word in ("--attach", name)), takes={"image": True}
    )
    assert [block["mimeType"] for block in blocks] == ["image/png", "image/jpeg", "image/webp"]
    assert {block["type"] for block in blocks} == {"image"}


@pytest.mark.rule(141)
def test_an_attached_image_goes_as_a_link_where_not_and_that_is_told(place: Place) -> None:
    (place.cwd / "shot.png").write_bytes(PNG)
    ran = place.run("Look", "--attach", "shot.png", "--format", "quiet", *odd("echo"))
    assert json.loads(ran.out)[1]["type"] == "resource_link"
    assert "goes as a link: the agent takes no images in prompts" in ran.err


def test_an_attached_file_is_embedded_text_or_bytes(place: Place) -> None:
    (place.cwd / "notes.txt").write_text("hello")
    (place.cwd / "data.bin").write_bytes(b"\0\1")
    _, notes, data = sent(
        place, "Look", "--attach", "notes.txt", "--attach", "data.bin", takes={"embeddedContext": True}
    )
    assert notes["resource"]["text"] == "hello"
    assert data["resource"]["blob"] == base64.b64encode(b"\0\1").decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the prompt is empty"),
        (("",), "the prompt is empty"),
        (("x", "--attach", "missing.png"), "--attach 'missing.png': there is no such file"),
        (("x", "--file", "missing"), "--file 'missing' cannot be read: No such file or directory"),
        (("x", "--cwd", "missing"), "--cwd 'missing' is no folder"),
        (("x", "--add-dir", "missing"), "--add-dir 'missing' is no folder"),
        (("x", "--set", "nothing"), "--set 'nothing': write it as KEY=VALUE"),
        (("x", "--timeout", "0"), "--timeout '0' is no number of seconds above 0"),
        (("x", "--deadline", "soon"), "--deadline 'soon' is no number of seconds above 0"),
        (("x", "--continue", "--session", "1"), "--continue and --session both name a session: choose one"),
        (("x", "-a", "claude", "--", "cat"), "-a claude and -- cat both name an agent: choose one"),
        (("x", "--"), "behind -- belongs the command of an agent"),
        (("x", "--permissions", "some"), "argument --permissions: invalid choice: 'some'"),
        (("x", "-a", "no-such-agent"), "no agent is called 'no-such-agent'"),
        (("x", "-a", ""), "--agent was given an empty value: leave it out, or name one"),
    ],
)
def test_wrong_usage_is_one_line(
    place: Place,
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place.cwd)
    monkeypatch.setenv("ACCORD_HOME", str(place.home))
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["run", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith(f"accord run: {said}")


def test_help_tells_options_and_exit_codes(place: Place) -> None:
    ran = place.run("--help")
    assert ran.code == 0
    assert ran.out.startswith("usage: accord run [OPTIONS] [PROMPT ... | -] [-- COMMAND ...]")
    for word in ("--permissions", "--deadline", "Exit codes: 0 done"):
        assert word in ran.out


def test_every_option_has_a_test_that_uses_it() -> None:
    """An option that is parsed and then forgotten is the oldest defect of such commands."""
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    options = {
        word for action in parser()._actions for word in action.option_strings if word.startswith("--")
    }
    assert {option for option in options if f'"{option}"' not in tests} == set()
