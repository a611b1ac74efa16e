"""The programs of docs/ that serve until they are stopped: web application, WebSocket agent, gateway."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.cli.serve.gateway_process import accord as accord_command
from tests.cli.serve.gateway_process import running_gateway
from tests.patience import PATIENCE
from tools.snippets import ROOT, snippets


def save_files(folder: Path, *pages: str) -> dict[str, str]:
    files = {
        block.file: block.code
        for page in pages
        for block in snippets(ROOT / "docs" / page)
        if block.file is not None
    }
    for name, code in files.items():
        (folder / name).write_text(code)
    return files


def load(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(code, "recipe", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_web_application_asks_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = save_files(tmp_path, "first-agent.md", "asgi.md")
    monkeypatch.chdir(tmp_path)
    with TestClient(load(files["web_app.py"])["app"]) as web:
        answer = web.get("/ask", params={"text": "Hello"})
        assert answer.json() == {"text": "You said: Hello", "stop": "end_turn"}
        assert web.get("/stream", params={"text": "Hello"}).text == "You said: Hello"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_websocket_application_serves_an_agent(tmp_path: Path) -> None:
    files = save_files(tmp_path, "asgi.md")
    app = load(files["websocket_agent.py"])["app"]
    with TestClient(app).websocket_connect("/acp") as socket:

        def call(id: int, method: str, params: dict[str, Any]) -> list[Any]:
            socket.send_text(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            received: list[Any] = []
            while not received or received[-1].get("id") != id:
                received.append(json.loads(socket.receive_text()))
            return received

        call(1, "initialize", {"protocolVersion": 1})
        session = call(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})[-1]["result"]["sessionId"]
        prompt = [{"type": "text", "text": "Hello"}]
        updates = call(3, "session/prompt", {"sessionId": session, "prompt": prompt})
    assert updates[0]["params"]["update"]["content"]["text"] == "You said: Hello"
    assert updates[-1]["result"] == {"stopReason": "end_turn"}


def test_the_client_of_the_tutorial_uses_the_gateway(tmp_path: Path) -> None:
    files = save_files(tmp_path, "first-agent.md", "first-deployment.md")
    home = tmp_path / "home"
    accord_command(home, "agents", "add", "notes", "--", sys.executable, str(tmp_path / "notes_agent.py"))
    with running_gateway(home, "notes", "--no-qr") as gateway:
        client = files["remote_client.py"].replace("ws://127.0.0.1:8765/acp", gateway.websocket)
        done = subprocess.run(
            [sys.executable, "-c", client],
            cwd=tmp_path,
            env={**os.environ, "ACCORD_TOKEN": gateway.token},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert (done.stdout, done.stderr) == ("Noted.\n", "")
    assert (tmp_path / "notes.md").read_text() == "- buy milk\n"
