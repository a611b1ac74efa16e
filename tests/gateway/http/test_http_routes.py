"""The small endpoints and the web page: their answers, their access rules and their headers."""

import json
from pathlib import Path

import pytest
from tests.gateway.http.http_client import http_client, open_connection
from tests.gateway.http.http_harness import http_harness

from accord.gateway.http import ServerConfig

both_versions = pytest.mark.parametrize("version", [1, 2])


@both_versions
async def test_health_needs_no_token_and_no_host(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version, Authorization="") as client:
        for path in ("/healthz", "/health"):
            answer = await client.get(path, headers={"Host": "probe.internal"})
            assert (answer.status_code, answer.text) == (200, "ok\n")
            assert (await client.head(path)).headers["content-length"] == "3"
            assert (await client.post(path)).status_code == 405


@both_versions
async def test_metrics_need_a_token_and_count_events(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        await open_connection(client)
        assert (await client.get("/metrics", headers={"Authorization": ""})).status_code == 401
        answer = await client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.text.splitlines()
        assert "# TYPE accord_connections gauge" in lines
        assert "accord_connections 1" in lines
        assert "accord_sockets 1" in lines
        assert "accord_frames_in_total 1" in lines
        assert 'accord_requests_total{status="200"} 1' in lines
        assert 'accord_refused_total{reason="token"} 1' in lines


@both_versions
async def test_a_browser_logs_in_gets_tickets_and_logs_out(version: int) -> None:
    async with (
        http_harness() as harness,
        http_client(harness, version, Origin=harness.url, Authorization="") as client,
    ):
        assert (await client.post("/api/login")).status_code == 401
        assert (await client.post("/api/ticket")).status_code == 401
        bearer = {"Authorization": f"Bearer {harness.secret}"}
        login = await client.post("/api/login", headers=bearer)
        assert (login.status_code, login.content) == (204, b"")
        assert "HttpOnly" in login.headers["set-cookie"]
        assert "SameSite=Strict" in login.headers["set-cookie"]
        ticket = await client.post("/api/ticket")
        assert ticket.status_code == 200
        assert isinstance(json.loads(ticket.text)["ticket"], str)
        assert ticket.headers["cache-control"] == "no-store"
        assert (await client.post("/api/logout")).status_code == 204
        assert (await client.post("/api/ticket")).status_code == 401
        assert (await client.get("/api/login")).status_code == 405


@both_versions
async def test_the_files_of_the_page_are_compressed_for_clients_that_accept_it(
    version: int, tmp_path: Path
) -> None:
    script = "let x = 1;\n" * 1000
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "index-Ab3dEf9h.js").write_text(script)
    (tmp_path / "index.html").write_text("<!doctype html>small")
    async with (
        http_harness(ServerConfig(page=tmp_path)) as harness,
        http_client(harness, version, Authorization="") as client,
    ):
        etags = set[str]()
        for accepted, encoding in (("gzip, br", "gzip"), ("gzip", "gzip"), ("gzip;q=0", None), ("br", None)):
            answer = await client.get("/assets/index-Ab3dEf9h.js", headers={"Accept-Encoding": accepted})
            assert (answer.headers.get("content-encoding"), answer.text) == (encoding, script)
            assert answer.headers["vary"] == "Accept-Encoding"
            assert (int(answer.headers["content-length"]) < 1000) is (encoding == "gzip")
            etags.add(answer.headers["etag"])
            headers = {"Accept-Encoding": accepted, "If-None-Match": answer.headers["etag"]}
            assert (await client.get("/assets/index-Ab3dEf9h.js", headers=headers)).status_code == 304
        assert len(etags) == 2
        small = await client.get("/", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in small.headers


@both_versions
async def test_the_page_has_a_strict_policy_and_the_right_caching(version: int, tmp_path: Path) -> None:
    page, secret = tmp_path / "page", tmp_path / "secret"
    (page / "assets").mkdir(parents=True)
    secret.write_text("secret")
    (page / "index.html").write_text("<!doctype html>hello")
    (page / "assets" / "index-Ab3dEf9h.js").write_text("run()")
    (page / "assets" / "plain.css").write_text("a{}")
    (page / "diagram.html").write_text("<!doctype html>frame")
    (page / ".hidden").write_text("secret")
    (page / "leak").symlink_to(secret)
    async with (
        http_harness(ServerConfig(page=page)) as harness,
        http_client(harness, version, Authorization="") as client,
    ):
        index = await client.get("/")
        assert (index.status_code, index.text) == (200, "<!doctype html>hello")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        assert index.headers["cache-control"] == "no-cache"
        assert index.headers["x-content-type-options"] == "nosniff"
        assert index.headers["referrer-policy"] == "no-referrer"
        policy = index.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        frame = (await client.get("/diagram.html")).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'unsafe-inline';" in frame
        assert "connect-src" not in frame
        assert "frame-ancestors 'self'" in frame
        again = await client.get("/", headers={"If-None-Match": index.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        script = await client.get("/assets/index-Ab3dEf9h.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert (await client.get("/assets/plain.css")).headers["cache-control"] == "no-cache"
        # The frame of the diagrams has no origin and loads scripts, but nothing else.
        sandboxed = {"Origin": "null"}
        assert script.headers["access-control-allow-origin"] == "*"
        assert (await client.get("/assets/index-Ab3dEf9h.js", headers=sandboxed)).status_code == 200
        assert (await client.get("/", headers=sandboxed)).status_code == 403
        assert (await client.get("/api/push/key", headers=sandboxed)).status_code == 403
        head = await client.head("/")
        assert (head.content, head.headers["content-length"]) == (b"", "20")
        for path in (
            "/nothing",
            "/.hidden",
            "/leak",
            "/assets",
            "/..%2fsecret",
            "/assets/%2e%2e/%2e%2e/secret",
        ):
            assert ((await client.get(path)).status_code, path) == (404, path)
        assert (await client.post("/")).status_code == 405
        (page / "index.html").write_text("<!doctype html>changed")
        assert (await client.get("/")).text == "<!doctype html>changed"


async def test_a_path_out_of_the_page_folder_is_rejected(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.mkdir()
    (tmp_path / "secret").write_text("secret")
    async with http_harness(ServerConfig(page=page)) as harness:
        for path in (
            "/../secret",
            "//secret",
            "/%2e%2e/secret",
            "/..\\secret",
            "/./../secret",
            "/%00",
            f"/{tmp_path}/secret",
        ):
            reader, writer = await harness.raw()
            writer.write(harness.head(path=path, connection="close"))
            answer = await reader.read()
            assert b"secret\n" not in answer
            assert answer.split()[1] in (b"400", b"404")
            writer.close()


@both_versions
async def test_without_a_built_page_one_line_says_how_to_build_it(version: int, tmp_path: Path) -> None:
    async with (
        http_harness(ServerConfig(page=tmp_path / "none")) as harness,
        http_client(harness, version) as client,
    ):
        answer = await client.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "make web" in answer.text
        assert answer.text.count("\n") == 1


@both_versions
async def test_preflight_from_our_own_origin_needs_no_cors_header(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        own = await client.options("/acp", headers={"Origin": harness.url})
        assert own.status_code == 204
        assert "access-control-allow-origin" not in own.headers
        assert own.headers["vary"] == "Origin"


@pytest.mark.parametrize("path", ["/metrics", "/api/push/key"])
async def test_a_share_link_reads_no_endpoint_beside_its_session(path: str) -> None:
    async with http_harness() as harness, http_client(harness, 1) as client:
        _, secret = harness.tokens.new("", session="s1", agents=["hand"], read_only=True)
        answer = await client.get(path, headers={"Authorization": f"Bearer {secret}"})
        assert (answer.status_code, "only shows one session" in answer.text) == (403, True)
