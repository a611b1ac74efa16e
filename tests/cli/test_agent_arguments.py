"""Wrong arguments of `accord agent`: one line on stderr, exit code 2, no output on stdout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accord_command import run_accord

from accord.cli import agent_command


def refused(*words: str, home: Path, **more: str) -> str:
    """Run the agent and return the one line of its error."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))
    }
    run = run_accord("agent", *words, env={**inherited, "ACCORD_HOME": str(home), **more})
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("accord agent: ")
    return run.stderr


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        agent_command.main(["--help"])
    assert left.value.code == 0
    output = capsys.readouterr().out
    for option in ("model", "mode", "resume", "store", "log", "strict", "login", "logout"):
        assert f"--{option}" in output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--mode", "yolo"),
            "unknown mode 'yolo'; use one of: read-only, ask, workspace-write, full-access, plan",
        ),
        (
            ("--model", "unknown:gpt"),
            "'unknown:gpt' names no known provider (anthropic, openai, google, openrouter, ",
        ),
        (("--model", "gpt-5"), "'gpt-5' names no known provider"),
        (("--model", ""), "--model has an empty value"),
        (("--resume", ""), "--resume has an empty value"),
        (("--model",), "expected one argument"),
        (("--nope",), "unrecognized arguments: --nope"),
        (("prompt",), "unrecognized arguments: prompt"),
        (("--mod", "x"), "unrecognized arguments: --mod x"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    assert expected in refused(*words, home=tmp_path)


def test_a_wrong_model_in_the_environment_is_refused(tmp_path: Path) -> None:
    assert "names no known provider" in refused(home=tmp_path, ACCORD_MODEL="unknown:gpt")


def test_an_invalid_config_is_refused_with_its_file_and_key(tmp_path: Path) -> None:
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text("model = [")
    assert f"{config}: not valid TOML" in refused(home=tmp_path)
    config.write_text('[endpoints.work]\nkind = "x"\n')
    assert f"{config}: endpoints.work.kind: 'x' is not one of anthropic, google" in refused(home=tmp_path)
    config.write_text('[endpoints.work]\napi_key = "x"\n')
    assert "keys do not belong here" in refused(home=tmp_path)
    config.write_text('modle = "x"\n')
    assert f"{config}: modle: there is no such setting" in refused(home=tmp_path)
    config.write_text('[permissions]\nallow = [{ tol = "bash" }]\n')
    assert f"{config}: permissions.allow" in refused(home=tmp_path)
    config.write_text('mode = "yolo"\n')
    assert f"{config}: mode: 'yolo' is not one of" in refused(home=tmp_path)


def test_an_unusable_store_is_refused_unchanged(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, a text")
    assert "is not a session store" in refused("--store", str(text), home=tmp_path)
    assert text.read_text() == "not a database, a text"
    assert "is a folder" in refused("--store", str(tmp_path), home=tmp_path)
    assert f"{text} is not a folder" in refused("--store", str(text / "deeper" / "s.db"), home=tmp_path)


def test_a_log_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert f"missing folder {missing}" in refused("--log", str(missing / "wire.log"), home=tmp_path)
    assert "(Is a directory); use another file" in refused("--log", str(tmp_path), home=tmp_path)


def test_argument_checks_import_no_heavy_modules(tmp_path: Path) -> None:
    code = (
        "import sys; from accord.cli import agent_command\n"
        "agent_command._check_config(); agent_command._check_model('openai:gpt')\n"
        "agent_command._check_model(None)\n"
        "print(*sorted(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ACCORD_HOME": str(tmp_path)},
    )
    loaded = set(run.stdout.split())
    assert not {"argparse", "pathlib", "platformdirs", "sqlite3", "pydantic", "mcp", "tree_sitter"} & loaded
    names = {"accord.coder", "accord.coder.models", "accord.coder.models.model_name"}
    assert {name for name in loaded if name.startswith(("accord.coder", "accord.policy"))} == names
