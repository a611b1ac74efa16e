"""`accord serve` from its first start to its stop."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

import pytest
from tests.certificates import new_certificate
from tests.cli.agent_process import environment
from tests.cli.serve.gateway_process import accord, running_gateway, tokens_of
from tests.cli.serve.test_serve_tokens import INITIALIZE
from tests.cli.terminal import in_terminal
from websockets.sync.client import connect

import accord as accord_client
from accord.cli import main
from accord.cli.doctor_command import gateway_finding
from accord.gateway.access.access_tokens import TokenStore


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_only_a_token_opens_the_gateway(home: Path) -> None:
    with running_gateway(home) as gateway:
        assert "Agents: accord (default)" in gateway.output
        assert gateway.status("/healthz") == 200
        assert gateway.status("/metrics") == 401
        assert gateway.status("/metrics", gateway.token) == 200
        assert gateway.status("/api/ticket", gateway.token, "POST", Origin="http://evil.example") == 403
        assert gateway.status("/metrics", gateway.token, Host="evil.example") == 421
        assert gateway.status(f"/metrics?token={gateway.token}") == 400
        gateway.signal()
        code, log = gateway.end()
    assert code == 0
    assert gateway.token not in log
    with running_gateway(home) as gateway:
        assert "in a logged-in browser. For another device run: accord serve token new" in gateway.output


async def test_one_machine_loads_nothing_of_a_cluster(home: Path) -> None:
    with running_gateway(home, PYTHONPROFILEIMPORTTIME="1", ACCORD_MODEL="rehearsal") as gateway:
        async with accord_client.connect(gateway.websocket, token=gateway.token) as agent:
            session = await agent.new_session(home)
            await session.ask("hello")
        gateway.signal()
        _, log = gateway.end()
    modules = {line.rpartition("|")[2].strip() for line in log.splitlines() if "import time:" in line}
    assert "accord.gateway.gateway" in modules
    assert not [name for name in modules if name.startswith(("accord.cluster", "nats"))]


def test_stored_files_are_for_the_owner_only(home: Path) -> None:
    with running_gateway(home) as gateway:
        gateway.status("/metrics")
        secret = gateway.token[len("acc_12345678_") :]
        gateway.signal(signal.SIGINT)
        assert gateway.end()[0] == 0
    stored_files = list((home / "data" / "gateway").rglob("*"))
    assert {path.name for path in stored_files} >= {"tokens", "audit.jsonl"}
    for path in stored_files:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        assert path.is_dir() or secret not in path.read_text()
    assert audit_events(home) == ["start", "refused", "stop"]


def audit_events(home: Path) -> list[str]:
    return [
        json.loads(line)["event"] for line in (home / "data/gateway/audit.jsonl").read_text().splitlines()
    ]


def test_no_token_is_created_without_a_terminal(home: Path) -> None:
    with running_gateway(home) as gateway:
        assert "#token=" not in gateway.output
        assert "There is no token yet." in gateway.output
        assert "run: accord serve token new\n" in gateway.output
    assert tokens_of(home) == []


def test_no_token_is_created_without_stdout(home: Path) -> None:
    words = [sys.executable, "-m", "accord.cli", "serve", "--port", "0", "--log-format", "json"]
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *words]
    with subprocess.Popen(shell, stderr=subprocess.PIPE, text=True, env=environment(home)) as running:
        assert running.stderr
        assert "listening on http://127.0.0.1:" in running.stderr.readline()
        running.terminate()
        assert "has stopped" in running.stderr.read()
    assert running.returncode == 0
    assert tokens_of(home) == []


def test_a_link_that_other_devices_can_open_has_a_qr_code(home: Path) -> None:
    env = environment(home) | {"COLUMNS": "100", "LINES": "60"}
    with in_terminal("serve", "--port", "0", "--host-name", "agents.example.org", env=env) as terminal:
        terminal.expect("#token=acc_")
        terminal.expect("▀▀▀▀▀")
        terminal.expect("Press Ctrl-C to stop")
        terminal.type("\x03")
        assert terminal.end() == 0
    assert [token.name for token in tokens_of(home)] == ["first"]
    assert audit_events(home) == ["start", "token made", "stop"]
    with in_terminal("serve", "token", "new", "--no-qr", env=env) as terminal:
        terminal.expect("#token=acc_")
        assert terminal.end() == 0
        assert "▀▀▀▀▀" not in terminal.shown


def test_the_link_of_a_loopback_address_says_how_to_reach_the_gateway_from_a_phone(home: Path) -> None:
    with in_terminal("serve", "--port", "0", env=environment(home) | {"COLUMNS": "100"}) as terminal:
        terminal.expect("#token=acc_")
        terminal.expect("This link works on this computer only.")
        terminal.expect("--tls-cert CERTIFICATE --tls-key KEY")
        terminal.expect("Press Ctrl-C to stop")
        terminal.type("\x03")
        assert terminal.end() == 0
        assert "▀▀▀▀▀" not in terminal.shown


def test_a_command_is_served_under_a_name_and_sessions_begin_in_the_folder_of_the_start(home: Path) -> None:
    folder = home / "project"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "accord.cli", "agent"]
    with running_gateway(home, "--name", "mine", "--cwd", str(folder), "--", *command) as gateway:
        assert "Agents: mine (default)\n" in gateway.output
        headers = {"Authorization": f"Bearer {gateway.token}"}
        with connect(gateway.websocket, additional_headers=headers) as ws:
            ws.send(INITIALIZE)
            ws.recv()
            ws.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "_accord/folders", "params": {}}))
            assert json.loads(ws.recv())["result"]["path"] == str(folder.resolve())
    code, _, err = accord(home, "serve", "--name", "mine")
    assert (code, err) == (
        2,
        "accord serve: --name 'mine' names the agent after --; add -- and its command\n",
    )


def test_a_taken_port_is_a_one_line_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = accord(home, "serve", "--port", str(port))
    assert (code, out) == (2, "")
    assert err == (
        f"accord serve: port {port} is in use on 127.0.0.1; "
        "choose another with --port (0 for any free port)\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--host", "0.0.0.0"], "--tls-cert F --tls-key F"),
        (["--host", "::"], "--insecure"),
        (["--host", "no such host"], "is not an address or name of this machine"),
        (["--port", "99999"], "'99999' is not a port"),
        (["--port", "x"], "'x' is not a port"),
        (["--idle", "0"], "--idle '0'"),
        (["--tls-cert", "a.pem"], "need each other"),
        (["--tls-cert", "/no/a.pem", "--tls-key", "/no/b.pem"], "/no/a.pem"),
        (["--host-name", "https://x"], "invalid --host-name"),
        (["--allow-origin", "example.org"], "invalid --allow-origin"),
        (["--allow-origin", "*"], "invalid --allow-origin"),
        (["--folder", "/no/such/folder"], "is not a folder"),
        (["--proxy", "proxy.example"], "write it as 127.0.0.1 or 172.17.0.0/16"),
        (["--limit", "connection=1"], "the names are: connections, totalConnections"),
        (["--limit", "connections=0"], "--limit"),
        (["--limit", "connections=many"], "'many' is not a number"),
        (["--log", "/no/such/folder/log"], "cannot write --log"),
        (["unknown"], "unknown agent 'unknown'"),
        (["accord", "accord"], "named twice"),
        (["--"], "missing agent command after `--`"),
        (["--wat"], "--wat"),
        (["token", "make"], "use one of: new, list, revoke"),
        (["token", "revoke", "abcdefgh"], "token list"),
        (["token", "new", "--expires", "soon"], "use for example 12h, 30d or 8w"),
        (["token", "new", "--folder", "/no/such/folder"], "is not a folder"),
        (["token", "new", "--url", "ftp://example.org"], "use for example https://example.org"),
        (["token", "new", "--url", "example.org"], "use for example https://example.org"),
    ],
)
def test_wrong_usage_is_a_one_line_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code = main(["serve", *words])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert expected in err
    assert err.startswith("accord serve: ")
    assert err.count("\n") == 1
    assert TokenStore().all() == []


def test_options_override_the_settings_file(home: Path) -> None:
    file = home / "config" / "serve.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"hostNames": ["home.example"], "limits": {"connections": 1}, "port": 1}')
    TokenStore(home / "data" / "gateway" / "tokens").new("mine")
    with running_gateway(home, "--port", "0") as gateway:
        assert gateway.status("/metrics", gateway.token, Host="home.example") == 200
        assert "Open https://home.example/ in" in gateway.output
    file.write_text('{"hostName": "x"}')
    code, _, err = accord(home, "serve")
    assert code == 2
    assert str(file) in err
    assert "hostName" in err


def test_tls_works_with_certificate_and_key_files(home: Path, tmp_path: Path) -> None:
    cert, key = new_certificate(tmp_path)
    with running_gateway(home, "--tls-cert", cert, "--tls-key", key) as gateway:
        assert gateway.url.startswith("https://")
        context = ssl.create_default_context(cafile=cert)
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
        with opener.open(gateway.url + "/healthz") as response:
            assert response.status == 200


def test_the_log_can_be_json_lines(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_gateway(home, "--log-format", "json", "--log", str(log)) as gateway:
        gateway.signal()
        assert gateway.end() == (0, "")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["message"] for line in lines] == [f"listening on {gateway.url}", "the gateway has stopped"]
    assert set(lines[0]) == {"time", "level", "logger", "message"}


def test_the_doctor_reports_a_running_gateway_and_forgets_a_dead_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(home))
    finding = gateway_finding()
    assert (finding.name, finding.state) == ("gateway", "ready")
    assert "no token yet" in finding.remark
    assert not home.exists()
    with running_gateway(home) as gateway:
        assert gateway.token
        finding = gateway_finding()
        assert finding.state == "runs"
        assert f"at http://127.0.0.1:{gateway.port}; 1 token;" in finding.remark
        _, out, _ = accord(home, "serve", "token", "new")
        assert f"http://127.0.0.1:{gateway.port}/#token=acc_" in out
        gateway.signal(signal.SIGKILL)
        gateway.end()
    assert os.listdir(home / "data/gateway/running")
    assert gateway_finding().state == "ready"
    assert os.listdir(home / "data/gateway/running") == []
    (home / "config").mkdir()
    (home / "config" / "serve.json").write_text("{")
    assert gateway_finding().state == "BROKEN"
    (home / "config" / "serve.json").write_text('{"cluster": {"serverz": []}}')
    assert "cluster: Object contains unknown field `serverz`" in gateway_finding().remark
