"""The programs of docs/ that serve until they are stopped: web application, WebSocket agent, gateway."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.patience import PATIENCE
from tools.snippets import ROOT, snippets

import accord


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


def test_the_gateway_of_the_tutorial_serves_the_agent(tmp_path: Path) -> None:
    save_files(tmp_path, "first-agent.md")
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}
    cli = [sys.executable, "-m", "accord.cli"]
    add = [*cli, "agents", "add", "notes", "--", sys.executable, str(tmp_path / "notes_agent.py")]
    subprocess.run(add, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=PATIENCE)
    command = [*cli, "serve", "notes", "--port", "0", "--no-qr"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        link = next(found for line in gateway.stdout if (found := re.search(r"http\S+#token=\S+", line)))
        try:
            answer = asyncio.run(ask(link[0], tmp_path))
        finally:
            gateway.terminate()
            gateway.communicate(timeout=PATIENCE)
    assert answer == "Nothing changed."


async def ask(link: str, folder: Path) -> str:
    address, _, token = link.replace("http", "ws", 1).partition("/#token=")
    async with accord.connect(f"{address}/acp", token=token) as agent:
        session = await agent.new_session(folder)
        return (await session.ask("buy milk")).text
