"""`accord agents setup`: prints the settings of each editor, or merges them into its file."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from tests.accord_command import run_accord

from accord.cli.editor_setup import Machine
from accord.frontend.agent_config.jsonc import parse

OWN = str(Path(sys.executable).with_name("accord"))


class SetupHarness:
    """A home folder in which the command runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"HOME": str(folder), "PATH": os.environ["PATH"], "ACCORD_HOME": str(folder / "accord")}

    def setup(self, *words: str, code: int = 0) -> str:
        ran = run_accord("agents", "setup", *words, env=self.env)
        assert ran.returncode == code, ran.stderr
        self.stderr = ran.stderr
        if code:
            assert ran.stdout == ""
            assert ran.stderr.count("\n") == 1
            return ran.stderr.removeprefix("accord agents: ").rstrip("\n")
        return ran.stdout


@pytest.fixture
def harness(tmp_path: Path) -> SetupHarness:
    return SetupHarness(tmp_path)


FILES = {
    "zed": (".config/zed/settings.json", "agent_servers", "accord", {"type": "custom"}),
    "jetbrains": (".jetbrains/acp.json", "agent_servers", "Accord", {}),
    "vscode": (".config/Code/User/settings.json", "acp.agents", "Accord", {}),
}


@pytest.mark.parametrize("editor", FILES)
def test_setup_prints_the_settings_and_writes_nothing(harness: SetupHarness, editor: str) -> None:
    file, key, name, tag = FILES[editor]
    entry = {**tag, "command": OWN, "args": ["agent"], "env": {}}
    assert json.loads(harness.setup(editor)) == {key: {name: entry}}
    assert harness.stderr == f"Add this to {harness.folder / file}, or run the command with --write.\n"
    assert not (harness.folder / file).exists()


@pytest.mark.parametrize("editor", FILES)
def test_setup_writes_to_the_file_of_the_editor(harness: SetupHarness, editor: str) -> None:
    file, key, name, tag = FILES[editor]
    path = harness.folder / file
    harness.setup(editor, "--write")
    entry = {**tag, "command": OWN, "args": ["agent"], "env": {}}
    assert json.loads(path.read_text()) == {key: {name: entry}}
    output = harness.setup(editor, "--write")
    assert output == f"{path} already runs {OWN} agent as {name!r}; nothing to change\n"
    harness.setup(editor, "--remove")
    assert json.loads(path.read_text()) == {key: {}}
    assert harness.setup(editor, "--remove") == f"{path} has no {name!r}; nothing to change\n"


ZED = """\
// Zed settings
{
  "theme": "One Dark", // dark
  "agent_servers": {
    "other": { "type": "registry" }, /* theirs */
    "accord": {
      "type": "custom",
      "command": "old",
      "env": { "KEY": "mine" },
      "default_mode": "plan", // I like it
    },
  },
}
"""


def test_comments_and_user_settings_are_kept(harness: SetupHarness) -> None:
    path = harness.folder / ".config/zed/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(ZED)
    path.chmod(0o640)
    output = harness.setup("zed", "--write")
    backup = path.with_name("settings.json.accord-backup")
    assert output == f"Zed: 'accord' added to {path}; backup: {backup}\n"
    after = path.read_text()
    assert after == ZED.replace('"old"', json.dumps(OWN)).replace(
        "// I like it\n", '// I like it\n      "args": ["agent"],\n'
    )
    assert parse(after).value["agent_servers"]["accord"]["env"] == {"KEY": "mine"}
    assert backup.read_text() == ZED
    assert path.stat().st_mode & 0o777 == backup.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in path.parent.iterdir()) == [
        "settings.json",
        "settings.json.accord-backup",
    ]


def test_a_symbolic_link_is_kept(harness: SetupHarness) -> None:
    path = harness.folder / ".config/zed/settings.json"
    dotfiles = harness.folder / "dotfiles"
    dotfiles.mkdir()
    path.parent.mkdir(parents=True)
    (dotfiles / "zed.json").write_text("{}\n")
    path.symlink_to(dotfiles / "zed.json")
    harness.setup("zed", "--write")
    assert path.is_symlink()
    assert "accord" in (dotfiles / "zed.json").read_text()


@pytest.mark.parametrize(
    ("editor", "text", "expected"),
    [
        ("zed", "{ nope", "line 1, column 3: a key in quotes is missing"),
        ("zed", "[]", "the file is not an object"),
        ("zed", '{"agent_servers": []}', "agent_servers is not an object"),
        ("zed", '{"agent_servers": {"accord": 1}}', "agent_servers.accord is not an object"),
        ("jetbrains", '{"agent_servers": {}} // mine', "line 1, column 23: comments are not allowed here"),
        ("jetbrains", '{"agent_servers": {},}', "unexpected comma before '}'"),
    ],
)
def test_an_invalid_file_is_not_changed(harness: SetupHarness, editor: str, text: str, expected: str) -> None:
    path = harness.folder / FILES[editor][0]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    output = harness.setup(editor, "--write", code=2)
    assert output.startswith(f"{path}: ")
    assert expected in output
    assert output.endswith("it was not changed, run the command without --write and paste its output")
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_text() == text


def test_non_text_files_and_unusable_paths_are_refused(harness: SetupHarness) -> None:
    path = harness.folder / "settings.json"
    path.write_bytes(b"\xff\xfe{\x00}\x00")
    assert "is not UTF-8 and was not changed" in harness.setup("zed", "--write", "--file", str(path), code=2)
    folder = harness.folder / "folder"
    folder.mkdir()
    assert str(folder) in harness.setup("zed", "--write", "--file", str(folder), code=2)
    missing = harness.folder / "settings.json" / "below"
    assert f"{missing}: it cannot be written" in harness.setup(
        "zed", "--write", "--file", str(missing), code=2
    )


def test_another_file_and_another_name_can_be_given(harness: SetupHarness) -> None:
    path = harness.folder / "insiders.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"a": 1\r\n}\r\n')
    harness.setup("vscode", "--write", "--file", str(path), "--name", "My Accord")
    data = path.read_bytes()
    assert data.startswith(b'\xef\xbb\xbf{\r\n\t"a": 1,\r\n\t"acp.agents": {\r\n\t\t"My Accord": {\r\n')
    assert b"\n" not in data.replace(b"\r\n", b"")


@pytest.mark.parametrize("plugin", ["codecompanion", "avante", "agentic"])
def test_neovim_gets_lua_code(harness: SetupHarness, plugin: str) -> None:
    text = harness.setup("neovim", "--plugin", plugin)
    assert text.startswith(f"-- {plugin}")
    assert f'"{OWN}"' in text
    assert '"agent"' in text
    assert "@" not in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("plugin", ["avante", "agentic"])
def test_plugins_that_pass_only_path_get_every_variable_that_the_agent_needs(
    harness: SetupHarness, plugin: str
) -> None:
    harness.env |= {"MY_SERVER_API_KEY": "secret-value", "MY_SERVER_BASE_URL": "http://localhost:1/v1"}
    text = harness.setup("neovim", "--plugin", plugin)
    assert "env = {}" not in text
    for name in ("HOME", "ACCORD_HOME", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY",
                 "MY_SERVER_API_KEY", "MY_SERVER_BASE_URL"):  # fmt: skip
        assert f'        {name} = os.getenv("{name}"),\n' in text
    assert "secret-value" not in text


def test_avante_is_set_to_ask_and_the_user_is_told_why(harness: SetupHarness) -> None:
    text = harness.setup("neovim", "--plugin", "avante")
    assert "-- avante approves every tool call by default, without asking you; false makes it ask" in text
    assert "behaviour = { auto_approve_tool_permissions = false }," in text
    assert "approves" not in harness.setup("neovim", "--plugin", "agentic")


def test_acpx_gets_a_command_line(harness: SetupHarness) -> None:
    path = harness.folder / ".acpx/config.json"
    path.parent.mkdir()
    path.write_text('{"ttl": 5, "agents": {"accord": {"argv": ["old"]}}}')
    harness.setup("acpx", "--write")
    entry = json.loads(path.read_text())["agents"]["accord"]
    assert entry == {"command": f"{OWN} agent"}
    assert json.loads(path.read_text())["ttl"] == 5
    harness.setup("acpx", "--remove")
    assert json.loads(path.read_text())["agents"] == {}


def test_emacs_gets_lisp_code_and_toad_a_command(harness: SetupHarness) -> None:
    text = harness.setup("emacs")
    assert f'(acp-make-client :command "{OWN}"' in text
    assert text.count("(") == text.count(")")
    assert "@" not in text
    words = shlex.split(harness.setup("toad"))
    assert (words[:2], words[3:]) == (["toad", "acp"], ["--title", "Accord"])
    assert shlex.split(words[2]) == [OWN, "agent"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["vim"], "unknown editor 'vim'; use one of: zed, jetbrains, neovim, emacs, vscode, toad, acpx"),
        ([], "the following arguments are required: editor"),
        (
            ["emacs", "--write"],
            "--write does not work for emacs (Emacs is configured by Lisp code); omit it",
        ),
        (["neovim", "--remove"], "--remove does not work for neovim (Neovim is configured by Lua code)"),
        (["toad", "--file", "x"], "--file does not work for toad (Toad keeps no list of agents)"),
        (["zed", "--write", "--remove"], "--write and --remove exclude each other"),
        (["zed", "--plugin", "avante"], "--plugin 'avante' is not valid here; it is for neovim"),
        (
            ["neovim", "--plugin", "x"],
            "--plugin 'x' is not valid here; it is for neovim, one of codecompanion, avante, agentic",
        ),
        (["zed", "--name", " "], "--name ' ' is empty or not printable"),
    ],
)
def test_wrong_usage_is_a_one_line_error(harness: SetupHarness, words: list[str], expected: str) -> None:
    assert harness.setup(*words, code=2).startswith(expected)


@pytest.mark.parametrize(
    ("machine", "zed", "vscode", "jetbrains"),
    [
        (
            Machine("linux", "/home/me", {}),
            "/home/me/.config/zed/settings.json",
            "/home/me/.config/Code/User/settings.json",
            "/home/me/.jetbrains/acp.json",
        ),
        (
            Machine("linux", "/home/me", {"XDG_CONFIG_HOME": "/x", "FLATPAK_XDG_CONFIG_HOME": "/f"}),
            "/f/zed/settings.json",
            "/x/Code/User/settings.json",
            "/home/me/.jetbrains/acp.json",
        ),
        (
            Machine("linux", "/home/me", {"XDG_CONFIG_HOME": "relative"}),
            "/home/me/.config/zed/settings.json",
            "/home/me/.config/Code/User/settings.json",
            "/home/me/.jetbrains/acp.json",
        ),
        (
            Machine("darwin", "/Users/me", {"XDG_CONFIG_HOME": "/x"}),
            "/Users/me/.config/zed/settings.json",
            "/Users/me/Library/Application Support/Code/User/settings.json",
            "/Users/me/.jetbrains/acp.json",
        ),
        (
            Machine("win32", "C:\\Users\\me", {"APPDATA": "D:\\Roaming"}),
            "D:\\Roaming\\Zed\\settings.json",
            "D:\\Roaming\\Code\\User\\settings.json",
            "C:\\Users\\me\\.jetbrains\\acp.json",
        ),
    ],
)
def test_settings_paths_on_every_platform(machine: Machine, zed: str, vscode: str, jetbrains: str) -> None:
    assert [str(place) for place in (machine.zed(), machine.vscode(), machine.jetbrains())] == [
        zed,
        vscode,
        jetbrains,
    ]
