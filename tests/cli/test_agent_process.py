"""`accord agent` as the process that editors start: options, sign-in, and clean stdout and stderr."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.agent_process import environment, running_agent
from tests.cli.terminal import in_terminal

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_initialize_in_an_empty_home_offers_the_sign_in_methods(home: Path, tmp_path: Path) -> None:
    meta = {"terminal_output": True, "terminal-auth": True}
    with running_agent(home=home, HOME=str(tmp_path)) as agent:
        result = agent.initialize(terminal=True, fs={"readTextFile": True, "writeTextFile": True}, _meta=meta)
        assert agent.end() == 0
    assert [method.get("type", "agent") for method in result["authMethods"]] == ["agent", "terminal"]
    assert agent.stderr == ""


def test_a_provider_requires_its_key_and_finds_it_after_a_login(home: Path, project: Path) -> None:
    (home / "config").mkdir(parents=True)
    nowhere = '[endpoints.openai]\nbase_url = "http://127.0.0.1:9/v1"\nneeds_key = true\n'
    (home / "config" / "config.toml").write_text(nowhere)
    with running_agent("--model", "openai:gpt-5", home=home) as agent:
        agent.initialize()
        error = agent.new_session(project)["error"]
        assert (error["code"], "accord agent --login openai" in error["message"]) == (-32000, True)
        assert agent.request("authenticate", methodId="accord-login")["error"]["code"] == -32000
        login = [sys.executable, "-m", "accord.cli", "agent", "--login", "openai"]
        subprocess.run(login, input=KEY.encode(), env=environment(home), capture_output=True, check=True)
        assert agent.request("authenticate", methodId="accord-login")["result"] == {}
        answer = agent.new_session(project)
        options = {option["id"]: option for option in answer["result"]["configOptions"]}
        assert options["model"]["currentValue"] == "openai:gpt-5"
        assert agent.request("logout")["result"] == {}
        assert not (home / "config" / "credentials.json").exists()
        assert agent.new_session(project)["error"]["code"] == -32000
        assert agent.end() == 0
    assert KEY not in agent.stderr


@pytest.mark.parametrize("member", ["apiKey", "baseUrl"])
def test_keys_and_urls_in_requests_are_refused(home: Path, project: Path, member: str) -> None:
    with running_agent(home=home) as agent:
        agent.initialize()
        error = agent.request("session/new", cwd=str(project), mcpServers=[], **{member: KEY})["error"]
        assert error["code"] == -32602
        assert KEY not in json.dumps(error)
        session = agent.request("session/new", cwd=str(project), mcpServers=[], _meta={member: KEY})[
            "result"
        ]["sessionId"]
        error = agent.request(
            "session/set_config_option",
            sessionId=session,
            configId="model",
            value="rehearsal",
            **{member: KEY},
        )["error"]
        assert error["code"] == -32602


def test_mode_and_model_options_set_a_new_session(home: Path, project: Path) -> None:
    with running_agent("--mode", "plan", "--model", "rehearsal", home=home, OPENAI_API_KEY=KEY) as agent:
        agent.initialize()
        answer = agent.new_session(project)["result"]
        assert agent.end() == 0
    assert answer["modes"]["currentModeId"] == "plan"
    assert {option["id"]: option["currentValue"] for option in answer["configOptions"]}[
        "model"
    ] == "rehearsal"


def test_a_turn_writes_only_the_requested_file(home: Path, project: Path) -> None:
    with running_agent(home=home) as agent:
        agent.initialize()
        session = agent.new_session(project)["result"]["sessionId"]
        answer = agent.prompt(session, "write notes.txt: hello then read notes.txt")
        assert agent.end() == 0
    assert answer["result"]["stopReason"] == "end_turn"
    assert [file.name for file in project.iterdir()] == ["notes.txt"]
    assert (project / "notes.txt").read_text().strip() == "hello"
    assert agent.stderr == ""


def test_resume_replays_the_session_after_its_response(home: Path, project: Path) -> None:
    with running_agent(home=home) as agent:
        agent.initialize()
        session = agent.new_session(project)["result"]["sessionId"]
        agent.prompt(session, "write notes.txt: hello")
        agent.end()
    for words in (("--resume",), ("--resume", session)):
        with running_agent(*words, home=home) as agent:
            agent.initialize()
            assert agent.new_session(project)["result"]["sessionId"] == session
            assert agent.updates == []
            text = ""
            while "write notes.txt" not in text:
                update = agent.read()["params"]["update"]
                if update["sessionUpdate"] == "user_message_chunk":
                    text += update["content"]["text"]
            assert agent.new_session(project)["result"]["sessionId"] != session
            assert agent.end() == 0
        assert agent.stderr == ""


@pytest.mark.parametrize("words", [("--resume",), ("--resume", "nope")])
def test_resume_without_a_session_starts_a_new_one_with_a_note(
    home: Path, project: Path, words: tuple[str, ...]
) -> None:
    with running_agent(*words, home=home) as agent:
        agent.initialize()
        assert "result" in agent.new_session(project)
        assert agent.end() == 0
    assert "starting a new session" in agent.stderr
    assert agent.stderr.count("\n") == 1


def test_the_log_option_writes_messages_to_a_private_file(home: Path, project: Path, tmp_path: Path) -> None:
    log = tmp_path / "wire.log"
    with running_agent("--log", str(log), home=home) as agent:
        agent.initialize()
        agent.new_session(project)
        assert agent.end() == 0
    assert "session/new" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_store_option_is_used(home: Path, project: Path, tmp_path: Path) -> None:
    store = tmp_path / "deep" / "mine.db"
    with running_agent("--store", str(store), home=home) as agent:
        agent.initialize()
        session = agent.new_session(project)["result"]["sessionId"]
        agent.prompt(session, "think: nothing")
        assert agent.end() == 0
    assert store.exists()
    assert not (home / "data" / "sessions.db").exists()
    with running_agent("--store", str(store), home=home) as agent:
        agent.initialize()
        listed = agent.request("session/list", cwd=str(project))["result"]["sessions"]
    assert [entry["sessionId"] for entry in listed] == [session]


def test_on_a_terminal_the_agent_explains_what_it_waits_for(home: Path) -> None:
    with in_terminal("agent", env=environment(home)) as terminal:
        terminal.expect("waiting for an ACP client")
        terminal.expect("accord chat")
        terminal.expect("accord run PROMPT")
        terminal.expect("Ctrl-D ends it")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert "Traceback" not in terminal.shown
