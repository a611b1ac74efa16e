"""`accord agents install` and `update`, with a registry and archives on a local server."""

import hashlib
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.accord_command import run_accord

from accord.errors import UsageError
from accord.frontend.agent_config import archive_install
from accord.frontend.agent_config.archive_install import check_address, this_platform, unpack

PROGRAM = b"#!/bin/sh\necho started > started\n"


def tar(mode: str = "w:gz", name: str = "thing-1/bin/thing", **members: Any) -> bytes:
    """Return an archive with the program, or with one special member."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        info = tarfile.TarInfo(name)
        info.size = len(PROGRAM)
        for key, value in members.items():
            setattr(info, key, value)
        archive.addfile(info, io.BytesIO(PROGRAM))
    return data.getvalue()


def zipped(name: str = "thing-1/bin/thing", mode: int = 0o100644) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, PROGRAM)
    return data.getvalue()


class RegistryHarness:
    """A local server with a registry and archives, and a home folder."""

    def __init__(self, home: Path, port: int, served: dict[str, bytes]) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{port}"
        self.served = served
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "ACCORD_HOME": str(home / "accord")}

    def serve(self, archive: bytes, name: str = "thing.tar.gz", version: str = "1.0.0", **more: Any) -> None:
        self.served[f"/{name}"] = archive
        binary = {"archive": f"{self.url}/{name}", "cmd": "./thing-1/bin/thing", "args": ["--acp"], **more}
        self.serve_agent({"binary": {this_platform(): binary}}, version)

    def serve_agent(self, distribution: dict[str, Any], version: str = "1.0.0", id: str = "thing") -> None:
        agent = {"id": id, "name": "Thing", "version": version, "license": "MIT"}
        registry = {"version": "1.0.0", "agents": [{**agent, "distribution": distribution}]}
        self.served["/registry.json"] = json.dumps(registry).encode()

    def run(self, *words: str, code: int = 0) -> str:
        ran = run_accord("agents", *words, env=self.env)
        assert ran.returncode == code, ran.stderr
        self.stderr = ran.stderr
        return ran.stdout

    def install(self, *words: str, code: int = 0) -> str:
        return self.run(
            "install", "thing", "--registry", f"{self.url}/registry.json", "--yes", *words, code=code
        )

    def entry(self) -> dict[str, Any]:
        [path] = self.home.glob("accord/**/acp.json")
        return json.loads(path.read_text())["servers"]["thing"]

    def nothing_installed(self) -> bool:
        programs = list(self.home.rglob("thing"))
        return not list(self.home.glob("accord/**/acp.json")) and not [
            path for path in programs if path.is_file()
        ]


@pytest.fixture
def harness(tmp_path: Path) -> Generator[RegistryHarness]:
    served: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield RegistryHarness(tmp_path, server.server_address[1], served)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("thing.tar.gz", tar()),
        ("thing.tgz", tar()),
        ("thing%2B1.tar.bz2", tar("w:bz2")),
        ("thing.zip", zipped()),
        ("thing-linux", PROGRAM),
    ],
)
def test_an_archive_is_checked_unpacked_pinned_and_not_started(
    harness: RegistryHarness, name: str, archive: bytes
) -> None:
    digest = hashlib.sha256(archive).hexdigest()
    harness.serve(archive, name, sha256=digest.upper(), env={"A": "${b}"})
    assert "license MIT" in harness.install()
    assert harness.stderr == ""
    entry = harness.entry()
    program = Path(entry["command"])
    assert program.read_bytes() == PROGRAM
    assert program.stat().st_mode & 0o777 == 0o755
    assert (entry["args"], entry["env"]) == (["--acp"], {"A": "$${b}"})
    assert not list(harness.home.rglob("started"))
    assert "installed 1.0.0" in harness.run("list")
    [pins] = harness.home.rglob("installed.json")
    assert json.loads(pins.read_text())["agents"]["thing"]["sha256"] == digest
    harness.run("remove", "thing")
    assert not program.exists()
    assert json.loads(pins.read_text()) == {"version": 1, "agents": {}}


@pytest.mark.parametrize(
    ("archive", "name", "message"),
    [
        (tar(name="../thing"), "a.tar.gz", "the path '../thing' leads out of the archive"),
        (tar(name="/tmp/thing"), "a.tar.gz", "the path '/tmp/thing' leads out of the archive"),
        (tar(type=tarfile.SYMTYPE, linkname="../../../x", size=0), "a.tar.gz", "leads out of the archive"),
        (tar(type=tarfile.LNKTYPE, linkname="/etc/passwd", size=0), "a.tar.gz", "leads out of the archive"),
        (tar(type=tarfile.FIFOTYPE, size=0), "a.tar.gz", "is a device or a pipe"),
        (tar(name="other"), "a.tar.gz", "does not contain './thing-1/bin/thing'"),
        (zipped("../../thing"), "a.zip", "the path '../../thing' leads out of the archive"),
        (zipped("C:/thing"), "a.zip", "the path 'C:/thing' leads out of the archive"),
        (zipped(mode=0o120777), "a.zip", "is a link or a device"),
        (b"no archive", "a.tar.gz", "a.tar.gz cannot be unpacked"),
        (b"no archive", "a.zip", "a.zip cannot be unpacked"),
    ],
    ids=[  # the bytes of an archive contain the time
        "tar-parent",
        "tar-absolute",
        "tar-symlink",
        "tar-link",
        "tar-pipe",
        "tar-other",
        "zip-parent",
        "zip-drive",
        "zip-link",
        "no-tar",
        "no-zip",
    ],
)
def test_a_bad_archive_is_refused_in_one_line(
    harness: RegistryHarness, archive: bytes, name: str, message: str
) -> None:
    harness.serve(archive, name, sha256=hashlib.sha256(archive).hexdigest())
    harness.install(code=2)
    assert message in harness.stderr
    assert harness.stderr.count("\n") == 1
    assert harness.nothing_installed()


def test_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_install, "MAX_UNPACKED", 10)
    for name, data in (("a.zip", zipped()), ("a.tar.gz", tar())):
        (tmp_path / name).write_bytes(data)
        (tmp_path / "out").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="too many or too large files"):
            unpack(tmp_path / name, name, "thing", tmp_path / "out")


def tar_of(*members: tuple[str, bytes, str]) -> bytes:
    """Return an archive of members: name, type, and the target of a link or the content of a file."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, type, text in members:
            info = tarfile.TarInfo(name)
            info.type = type
            info.mode = 0o755
            if type == tarfile.REGTYPE:
                info.size = len(text)
            else:
                info.linkname = text
            archive.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def unpacked(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "a.tar.gz").write_bytes(data)
    folder = tmp_path / "parent" / "out"
    folder.mkdir(parents=True)
    unpack(tmp_path / "a.tar.gz", "a.tar.gz", "thing", folder)
    return folder


def test_links_inside_an_archive_are_kept(tmp_path: Path) -> None:
    folder = unpacked(
        tmp_path,
        tar_of(
            ("lib/real", tarfile.REGTYPE, "text"),
            ("bin/link", tarfile.SYMTYPE, "../lib/real"),
            ("bin/hard", tarfile.LNKTYPE, "lib/real"),
        ),
    )
    assert [(folder / name).read_text() for name in ("lib/real", "bin/link", "bin/hard")] == ["text"] * 3
    assert (folder / "bin/link").is_symlink()
    assert os.access(folder / "lib/real", os.X_OK)


@pytest.mark.parametrize("last", [(), (("out/evil", tarfile.REGTYPE, "x"),)], ids=["link", "file"])
def test_links_that_together_lead_out_of_an_archive_are_refused(
    tmp_path: Path, last: tuple[tuple[str, bytes, str], ...]
) -> None:
    """`a/up` is the folder itself, so `a/up/..` is outside, although it reads like `a`."""
    chain = (("a/up", tarfile.SYMTYPE, ".."), ("out", tarfile.SYMTYPE, "a/up/.."))
    with pytest.raises(UsageError, match=r"leads out of the archive|cannot be unpacked"):
        unpacked(tmp_path, tar_of(*chain, *last))
    assert not (tmp_path / "parent" / "evil").exists()


def test_a_download_that_ends_early_is_refused(tmp_path: Path) -> None:
    class ShortHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"short")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), ShortHandler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/a"
        with pytest.raises(UsageError, match=r"cannot download .*/a \("):
            archive_install.download(url, io.BytesIO(), 1000)
        thread.join()


def test_a_wrong_checksum_and_a_changed_archive_are_refused(harness: RegistryHarness) -> None:
    harness.serve(tar(), sha256="0" * 64)
    harness.install(code=2)
    assert "nothing was installed" in harness.stderr
    assert harness.nothing_installed()
    harness.serve(tar(), "plain.tar.gz")
    harness.run("install", "thing", "--registry", f"{harness.url}/registry.json", "--yes", code=2)  # cached
    for path in harness.home.rglob("_registries/*.json"):
        path.unlink()
    harness.install()
    assert "no checksum of thing; what is downloaded now gets pinned" in harness.stderr
    harness.served["/plain.tar.gz"] = tar(name="thing-1/bin/thing", mtime=5)
    harness.install(code=2)
    assert "has the checksum" in harness.stderr


def test_update_installs_a_new_version_and_keeps_only_that(harness: RegistryHarness) -> None:
    harness.serve(tar())
    harness.install()
    old = Path(harness.entry()["command"])
    assert "Everything is up to date." in harness.run("update")
    harness.serve(tar(), version="1.1.0-rc.1")
    assert "1.1.0-rc.1 installed" in harness.run("update", "thing", "--yes")
    assert "1.1.0-rc.1" in harness.entry()["command"]
    assert not old.exists()
    del harness.served["/registry.json"]
    assert harness.run("update", code=2) == ""
    assert "cannot download" in harness.stderr
    harness.install()  # the last good copy of the registry is used


def test_a_package_is_pinned_and_a_file_is_a_registry_too(harness: RegistryHarness) -> None:
    harness.serve_agent({"uvx": {"package": "thing==1.0.0", "args": ["acp"]}})
    file = harness.home / "registry.json"
    file.write_bytes(harness.served["/registry.json"])
    harness.run("install", "thing@1.0.0", "--registry", str(file), "--yes")
    assert harness.entry()["args"] == ["thing==1.0.0", "acp"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["install", "thing"], "missing --registry FILE or URL"),
        (["install", "thing", "--registry", "http://example.org/r.json"], "is refused; use an https address"),
        (["install", "thing", "--registry", "URL/none.json"], "cannot download "),
        (["install", "thin", "--registry", "URL/registry.json"], "did you mean thing?"),
        (["install", "thing@9.9.9", "--registry", "URL/registry.json"], "has thing 1.0.0, not 9.9.9"),
        (
            ["install", "thing", "--registry", "URL/registry.json"],
            "cannot ask without a terminal; pass --yes",
        ),
        (["update"], "no agent was installed by `accord agents install`"),
        (["update", "thing"], "thing was not installed by `accord agents install`"),
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(
    harness: RegistryHarness, words: list[str], message: str
) -> None:
    harness.serve(tar(), sha256=hashlib.sha256(tar()).hexdigest())
    harness.run(*(word.replace("URL", harness.url) for word in words), code=2)
    assert message in harness.stderr
    assert harness.stderr.count("\n") == 1
    assert harness.nothing_installed()


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (b'{"agents": [', "URL/registry.json: it is not JSON: line 1, column 13: it ends too early"),
        (b"[]", "URL/registry.json: it is neither a registry.json nor an agent.json"),
        (
            {"binary": {"amiga-m68k": {"archive": "URL/thing", "cmd": "thing"}}},
            f"URL/registry.json: thing has no archive for {this_platform()}, only for: amiga-m68k",
        ),
        (
            {"binary": {this_platform(): {"archive": "URL/thing", "cmd": "thing", "sha256": "zz"}}},
            f"URL/registry.json: agents[0].distribution.binary.{this_platform()}.sha256: it is not a SHA-256",
        ),
        (
            {"binary": {this_platform(): {"archive": "http://127.0.0.1:1/x", "cmd": "x"}}},
            "Connection refused)",
        ),
    ],
)
def test_a_bad_registry_is_one_line_that_names_its_address(
    harness: RegistryHarness, distribution: Any, message: str
) -> None:
    if isinstance(distribution, bytes):
        harness.served["/registry.json"] = distribution
    else:
        harness.serve_agent(distribution)
    harness.install(code=2)
    assert message.replace("URL", harness.url) in harness.stderr.splitlines()[-1]
    assert harness.nothing_installed()


def test_an_agent_may_have_the_name_of_the_folder_of_cached_registries(harness: RegistryHarness) -> None:
    harness.served["/thing"] = PROGRAM
    binary = {this_platform(): {"archive": f"{harness.url}/thing", "cmd": "thing"}}
    harness.serve_agent({"binary": binary}, id="registries")
    harness.run("install", "registries", "--registry", f"{harness.url}/registry.json", "--yes")
    harness.run("remove", "registries")
    harness.served.clear()
    harness.run("install", "registries", "--registry", f"{harness.url}/registry.json", code=2)
    assert "cannot ask without a terminal" in harness.stderr  # the cached registry is still there


def test_only_https_and_this_machine_are_addresses() -> None:
    check_address("https://example.org/a")
    for url in ("http://example.org/a", "ftp://x/y", "file:///etc/passwd", "http://127.0.0.1.example.org/"):
        with pytest.raises(UsageError, match="is refused"):
            check_address(url)


def test_a_newer_format_of_the_pins_is_refused(harness: RegistryHarness) -> None:
    harness.serve(tar())
    harness.install()
    [pins] = harness.home.rglob("installed.json")
    pins.write_text('{"version": 2, "agents": {}}')
    harness.install(code=2)
    assert f"{pins} was written by a newer Accord (format 2, this one knows 1): update" in harness.stderr
    assert pins.read_text() == '{"version": 2, "agents": {}}'
