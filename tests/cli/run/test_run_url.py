"""`accord run --url` with agents at WebSocket and HTTP addresses, and wrong addresses."""

import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.run.run_harness import RunHarness
from tests.interop.agent_server import AgentServer, run_agent_server
from tests.interop.conversation import NOTES, SCRIPT

SERVERS = [("python", "ws"), ("python", "http"), ("typescript", "ws"), ("typescript", "http")]


@pytest.fixture(params=SERVERS, ids="-".join, scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[AgentServer]:
    peer, carrier = request.param
    with run_agent_server(peer, carrier, tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(params=SERVERS, ids="-".join)
def mortal_server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[AgentServer]:
    """A server for one test, which may end it."""
    peer, carrier = request.param
    with run_agent_server(peer, carrier, tmp_path) as found:
        yield found


def test_a_turn_completes(harness: RunHarness, server: AgentServer) -> None:
    ran = harness.run("text", "--url", server.url, "--format", "json")
    assert (ran.code, ran.result["text"]) == (0, "".join(SCRIPT["pieces"])), ran.err
    ran = harness.run("text", "--url", server.url)
    assert (ran.code, "".join(SCRIPT["pieces"]).splitlines()[0] in ran.out) == (0, True)


def test_permissions_files_and_settings_work_as_with_a_local_agent(
    harness: RunHarness, server: AgentServer
) -> None:
    (harness.cwd / "notes.txt").write_text(NOTES)
    ran = harness.run("permission", "--format", "quiet", "--url", server.url)
    assert (ran.code, ran.out) == (5, "rejected\n")
    ran = harness.run("permission", "--format", "quiet", "--permissions", "all", "--url", server.url)
    assert (ran.code, ran.out) == (0, "allowed\n")
    ran = harness.run("files", "--format", "quiet", "--permissions", "all", "--url", server.url)
    assert ran.code == 0, ran.err
    assert (harness.cwd / "new.txt").read_text() == SCRIPT["files"]["text"]
    ran = harness.run("text", "--mode", "nope", "--url", server.url)
    assert ran.code == 2


def test_a_server_that_dies_during_a_turn_exits_with_3(
    harness: RunHarness, mortal_server: AgentServer
) -> None:
    ran = harness.run("crash", "--url", mortal_server.url)
    assert ran.code == 3
    assert "the connection to the agent is lost; reconnecting" in ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def plain(tmp_path: Path) -> Generator[AgentServer]:
    with run_agent_server("python", "ws", tmp_path) as found:
        yield found


def test_a_remote_folder_does_not_need_to_exist_here(harness: RunHarness, plain: AgentServer) -> None:
    ran = harness.run(
        "echo @there.txt fine", "--format", "json", "--cwd", "/not/on this/machine", "--url", plain.url
    )
    assert (ran.code, ran.result["text"]) == (0, "@there.txt fine"), ran.err
    ran = harness.run("files", "--permissions", "all", "--cwd", "/not/on this/machine", "--url", plain.url)
    assert ran.code == 1, "a missing folder cannot be read"
    ran = harness.run("text", "--cwd", "not-here", "--url", plain.url)
    assert (ran.code, "is not a folder" in ran.err) == (2, True)


def test_a_session_is_continued(harness: RunHarness) -> None:
    with run_agent_server("typescript", "ws", harness.home.parent) as server:
        ran = harness.run("echo one", "--url", server.url + "#token=hush", "--format", "quiet")
        assert (ran.code, ran.out) == (0, "one\n")
        ran = harness.run("echo two", "--url", server.url, "--continue", "--format", "json")
        assert (ran.code, ran.result["text"]) == (0, "two"), ran.err
        assert "hush" not in all_text_in(harness.home)


def all_text_in(folder: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


def test_a_closed_port_exits_with_3(harness: RunHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for scheme in ("ws", "http"):
        ran = harness.run("hello", "--url", f"{scheme}://127.0.0.1:{port}/#token=hush")
        assert ran.code == 3
        assert f"{scheme}://127.0.0.1:{port}/acp: cannot connect: nothing listens there" in ran.err
        assert "hush" not in ran.err + ran.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--url", "box:80"], "not the address of an agent"),
        (["--url", "ws://user:hush@box/"], "name or password"),
        (["--url", "ws://box/", "-a", "claude"], "--url and -a claude both name an agent"),
        (["--url", "ws://box/", "--", "agent"], "--url and -- agent both name an agent"),
        (["--token-file", "x"], "--token-file needs --url"),
        (["--url", "ws://box/", "--token-file", "nowhere"], "'nowhere' (No such file"),
        (["--url", "ws://box/", "--token-file", "two"], "must contain one token"),
        (["--url", "ws://box/", "--token-file", "empty"], "must contain one token"),
    ],
)
def test_wrong_usage_is_a_one_line_error(harness: RunHarness, words: list[str], why: str) -> None:
    (harness.cwd / "two").write_text("hush hush")
    (harness.cwd / "empty").write_text("\n")
    ran = harness.run("hello", *words)
    assert ran.code == 2
    assert why in ran.err
    assert "hush" not in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_the_token_file_overrides_the_url_and_the_url_the_environment(
    harness: RunHarness,
) -> None:
    (harness.cwd / "token").write_text("from-file\n")
    assert asked_with(harness, "#token=from-address", "--token-file", "token") == "Bearer from-file"
    assert asked_with(harness, "#token=from-address") == "Bearer from-address"
    assert asked_with(harness, "") == "Bearer from-environment"


def asked_with(harness: RunHarness, fragment: str, *words: str) -> str:
    """Return the credentials that a server receives before it answers with 401."""
    with RefusingServer() as server:
        ran = harness.run("hello", "--url", server.url + fragment, *words, ACCORD_TOKEN="from-environment")
        assert ran.code == 3
        assert "the token is missing or wrong (HTTP 401)" in ran.err
        assert "the token of --url comes from --token-file" in ran.err
        assert "from-" not in ran.err + ran.out
        return server.credentials


class RefusingServer:
    """Answers one request with 401."""

    def __init__(self) -> None:
        self.credentials = ""

    def __enter__(self) -> "RefusingServer":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        with peer, peer.makefile("rwb") as stream:
            while line := stream.readline().strip():
                name, _, value = line.decode().partition(":")
                if name.lower() == "authorization":
                    self.credentials = value.strip()
            stream.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()


def test_a_missing_extra_is_named(harness: RunHarness) -> None:
    hidden = harness.home.parent / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['websockets'] = None\n")
    ran = harness.run("hello", "--url", "ws://127.0.0.1:1/", PYTHONPATH=str(hidden))
    assert ran.code == 2
    assert "pip install 'accord[remote]'" in ran.err
    assert len(ran.err.strip().splitlines()) == 1
