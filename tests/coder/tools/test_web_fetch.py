"""Fetching pages from a local server that is allowed by name, and refusing forbidden addresses."""

import asyncio
import gzip
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Certificate, new_certificate
from tests.coder.tools.harness import ToolHarness, text_in
from tests.coder.tools.web_site import Site

from accord.coder.model_history import ImagePart
from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.frontend.web_client import WebAccess
from accord.testing import FakeClock


class FakeResolver:
    """Answers each lookup of a host with its next address list; the last one repeats."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError(-2, "Name or service not known")
        found = self.answers[host]
        return found.pop(0) if len(found) > 1 else found[0]


HERE = [["127.0.0.1"]]


def web_harness(
    project: Path,
    *,
    names: FakeResolver | None = None,
    allowed: tuple[str, ...] = ("127.0.0.1",),
    **more: Any,
) -> ToolHarness:
    names = names or FakeResolver(site_test=HERE, www_site_test=HERE, other_test=HERE)
    return ToolHarness(project, web=WebAccess(allowed=allowed, resolve=names), **more)


@pytest.fixture
def harness(project: Path) -> ToolHarness:
    return web_harness(project)


async def test_html_page_becomes_markdown(harness: ToolHarness, site: Site) -> None:
    site.page("/a?b=c", "<title>Hi</title><p>Read <a href='x'>more</a>")
    url = f"http://site.test:{site.port}/a?b=c"
    call = await harness.prepare("web_fetch", {"url": f"{url}#part"})
    assert (call.title, call.category, call.subject.url) == (f"Fetch {url}", "read-only", url)
    outcome = await harness.run(call)
    assert outcome.text == f"# Hi\n\nRead [more](http://site.test:{site.port}/x)"
    assert text_in(outcome.content) == outcome.text
    assert outcome.raw_output["status"] == 200
    request = site.asked[0].decode()
    assert request.startswith("GET /a?b=c HTTP/1.1\r\n")
    assert f"\r\nHost: site.test:{site.port}\r\n" in request
    assert "cookie" not in request.lower()


async def test_other_text_types_are_returned_unchanged(harness: ToolHarness, site: Site) -> None:
    site.page("/json", '{"a":  1}', "application/vnd.api+json; charset=utf-8")
    site.page("/latin", "grün".encode("latin-1"), "text/plain; charset=ISO-8859-1")
    site.page("/meta", b"<meta charset='latin-1'><p>gr\xfcn", "text/html")
    site.page("/odd", "plain", "text/plain; charset=no-such-thing")
    base = f"http://site.test:{site.port}"
    assert (await harness.done("web_fetch", url=f"{base}/json")).text == '{"a":  1}'
    assert (await harness.done("web_fetch", url=f"{base}/latin")).text == "grün"
    assert (await harness.done("web_fetch", url=f"{base}/meta")).text == "grün"
    assert (await harness.done("web_fetch", url=f"{base}/odd")).text == "plain"


async def test_compressed_and_chunked_bodies(harness: ToolHarness, site: Site) -> None:
    site.page("/gz", gzip.compress(b"packed"), "text/plain", content_encoding="gzip")
    site.pages["/chunks"] = (
        Site.head(200, content_type="text/plain", transfer_encoding="chunked")
        + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    site.pages["/old"] = b"HTTP/1.0 200 OK\r\n\r\nno headers at all"
    site.page("/br", b"?", "text/plain", content_encoding="br")
    site.page("/broken", b"no gzip", "text/plain", content_encoding="gzip")
    base = f"http://site.test:{site.port}"
    assert (await harness.done("web_fetch", url=f"{base}/gz")).text == "packed"
    assert (await harness.done("web_fetch", url=f"{base}/chunks")).text == "abcde"
    assert (await harness.done("web_fetch", url=f"{base}/old")).text == "no headers at all"
    assert "unknown encoding 'br'" in await harness.refused("web_fetch", url=f"{base}/br")
    assert "cannot be unpacked" in await harness.refused("web_fetch", url=f"{base}/broken")


async def test_http_error_is_reported(harness: ToolHarness, site: Site) -> None:
    site.pages["/gone"] = Site.head(410, content_type="text/plain", content_length="4") + b"gone"
    outcome = await harness.use("web_fetch", url=f"http://site.test:{site.port}/gone")
    assert outcome.failed
    assert outcome.text == f"gone\n\n(http://site.test:{site.port}/gone answered 410)"


async def test_binary_content_is_not_shown(harness: ToolHarness, project: Path, site: Site) -> None:
    site.page("/zip", b"PK\x03\x04\x00", "application/zip")
    site.page("/png", b"\x89PNG\r\n\x1a\n123", "image/png")
    base = f"http://site.test:{site.port}"
    assert "is application/zip, not text" in await harness.refused("web_fetch", url=f"{base}/zip")
    assert "does not accept images" in await harness.refused("web_fetch", url=f"{base}/png")
    seen = await web_harness(project, sees_images=True).done("web_fetch", url=f"{base}/png")
    assert seen.parts[1] == ImagePart(b"\x89PNG\r\n\x1a\n123", "image/png")


async def test_long_page_is_read_in_parts(project: Path, site: Site) -> None:
    harness = web_harness(project, limits=ToolLimits(output_chars=30))
    site.page("/long", "\n".join(f"line {n}" for n in range(1, 9)), "text/plain")
    url = f"http://site.test:{site.port}/long"
    assert (await harness.done("web_fetch", url=url)).text == (
        "line 1\nline 2\nline 3\nline 4\n\n(lines 1-4 of 8; go on with offset=5)"
    )
    assert (await harness.done("web_fetch", url=url, offset=5)).text == "line 5\nline 6\nline 7\nline 8"
    assert "there is no line 9" in await harness.refused("web_fetch", url=url, offset=9)


# -- limits --------------------------------------------------------------------------------------------------


async def test_endless_body_is_truncated_and_the_connection_closed(project: Path, site: Site) -> None:
    closed = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(Site.head(200, content_type="text/plain"))
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except OSError:
            closed.set()

    site.pages["/endless"] = endless
    harness = web_harness(project, limits=ToolLimits(fetch_bytes=200_000, output_chars=100))
    outcome = await harness.done("web_fetch", url=f"http://site.test:{site.port}/endless")
    assert "only the first 200,000 bytes of the page" in outcome.text
    await closed.wait()


async def test_decompressed_size_is_limited(project: Path, site: Site) -> None:
    site.page("/bomb", gzip.compress(b"x" * 20_000_000), "text/plain", content_encoding="gzip")
    harness = web_harness(project, limits=ToolLimits(fetch_bytes=100_000, output_chars=100))
    outcome = await harness.done("web_fetch", url=f"http://site.test:{site.port}/bomb")
    assert outcome.raw_output["bytes"] == 100_000


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nbegun"])
async def test_slow_server_times_out(project: Path, site: Site, begun: bytes) -> None:
    clock = FakeClock()
    stalled = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await writer.drain()
        stalled.set()
        await asyncio.Event().wait()

    site.pages["/slow"] = slow
    harness = web_harness(project, clock=clock)
    task = asyncio.ensure_future(harness.use("web_fetch", url=f"http://site.test:{site.port}/slow"))
    await stalled.wait()
    await clock.advance(29)
    assert not task.done()
    await clock.advance(1)
    outcome = await task
    assert outcome.failed
    assert outcome.text == f"http://site.test:{site.port}/slow was not fetched: it took more than 30 s"


async def test_cancelling_closes_the_connection(harness: ToolHarness, site: Site) -> None:
    stalled, gone = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        stalled.set()
        try:
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
        except OSError:
            gone.set()

    site.pages["/slow"] = slow
    task = asyncio.ensure_future(harness.use("web_fetch", url=f"http://site.test:{site.port}/slow"))
    await stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: " + b"b" * 100_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
    ],
)
async def test_broken_responses_are_reported(harness: ToolHarness, site: Site, answer: bytes) -> None:
    site.pages["/x"] = answer
    text = await harness.refused("web_fetch", url=f"http://site.test:{site.port}/x")
    assert text.startswith("web_fetch failed: site.test ")


# -- redirects -----------------------------------------------------------------------------------------------


async def test_redirects_on_the_same_host_are_followed(harness: ToolHarness, site: Site) -> None:
    site.redirect("/a", "/b")
    site.redirect("/b", f"http://www.site.test:{site.port}/c")
    site.page("/c", "there", "text/plain")
    outcome = await harness.done("web_fetch", url=f"http://site.test:{site.port}/a")
    assert outcome.text == "there"
    assert outcome.raw_output["url"] == f"http://www.site.test:{site.port}/c"


async def test_redirect_to_another_host_is_returned_and_not_followed(
    harness: ToolHarness, site: Site
) -> None:
    """The permission covers only the first host."""
    site.redirect("/a", f"http://other.test:{site.port}/leak?secret")
    outcome = await harness.done("web_fetch", url=f"http://site.test:{site.port}/a")
    assert outcome.text == (
        f"http://site.test:{site.port}/a redirects to another host: "
        f"http://other.test:{site.port}/leak?secret. To follow it, fetch that address."
    )
    assert len(site.asked) == 1


async def test_redirects_are_limited(harness: ToolHarness, site: Site) -> None:
    site.redirect("/a", "/a")
    assert "redirects more than 5 times" in await harness.refused(
        "web_fetch", url=f"http://site.test:{site.port}/a"
    )
    assert len(site.asked) == 6


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://site.test/", "http://user:pw@site.test/", "http://[::1/"]
)
async def test_redirect_to_an_invalid_address_is_refused(harness: ToolHarness, site: Site, to: str) -> None:
    site.redirect("/a", to)
    assert "web_fetch failed" in await harness.refused("web_fetch", url=f"http://site.test:{site.port}/a")


# -- forbidden addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["0.0.0.0"],
        ["8.8.8.8", "127.0.0.1"],
    ],
    ids=str,
)
async def test_host_with_a_forbidden_address_is_not_contacted(
    project: Path, site: Site, addresses: list[str]
) -> None:
    harness = web_harness(project, names=FakeResolver(evil_test=[addresses]), allowed=())
    text = await harness.refused("web_fetch", url=f"http://evil.test:{site.port}/")
    assert text.startswith("web_fetch failed: evil.test may not be fetched: ")
    assert site.asked == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]", "2130706433", "0x7f.1", "127.1", "0"]
)
async def test_local_machine_is_not_contacted_under_any_name(project: Path, site: Site, host: str) -> None:
    text = await ToolHarness(project).refused("web_fetch", url=f"http://{host}:{site.port}/")
    assert "may not be fetched" in text or "is not known" in text
    assert site.asked == []


async def test_redirect_that_resolves_to_a_forbidden_address_is_not_followed(
    project: Path, site: Site
) -> None:
    """The name is resolved again for the second request and then gives another address."""
    site.redirect("/a", "/b")
    site.page("/b", "secret", "text/plain")
    names = FakeResolver(evil_test=[["127.0.0.1"], ["127.0.0.2"]])
    text = await web_harness(project, names=names).refused("web_fetch", url=f"http://evil.test:{site.port}/a")
    assert "evil.test may not be fetched: 127.0.0.2 is this machine" in text
    assert len(site.asked) == 1


async def test_connection_uses_the_address_that_was_checked(project: Path, site: Site) -> None:
    """A name is resolved once per request; a second lookup would give a forbidden address."""
    site.page("/", "fine", "text/plain")
    names = FakeResolver(site_test=[["127.0.0.1"], ["10.0.0.1"]])
    assert (
        await web_harness(project, names=names).done("web_fetch", url=f"http://site.test:{site.port}/")
    ).text == "fine"
    assert names.asked == ["site.test"]


async def test_next_address_is_tried_when_one_does_not_answer(project: Path, site: Site) -> None:
    site.page("/", "fine", "text/plain")
    names = FakeResolver(site_test=[["127.0.0.9", "127.0.0.1"]])
    harness = web_harness(project, names=names, allowed=("127.0.0.0/8",))
    assert (await harness.done("web_fetch", url=f"http://site.test:{site.port}/")).text == "fine"


async def test_unknown_host_and_unsupported_scheme(harness: ToolHarness) -> None:
    assert "nobody.test is not known" in await harness.refused("web_fetch", url="http://nobody.test/")
    with pytest.raises(BadArguments, match="only http and https"):
        await harness.prepare("web_fetch", {"url": "file:///etc/passwd"})


# -- TLS -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return new_certificate(tmp_path_factory.mktemp("tls"), names="DNS:site.test")


async def test_certificate_is_checked_against_the_host_name(project: Path, certificate: Certificate) -> None:
    site = Site()
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(*certificate)
    server = await asyncio.start_server(site, "127.0.0.1", 0, ssl=ours)
    port = server.sockets[0].getsockname()[1]
    site.page("/", "private", "text/plain")
    site.redirect("/down", f"http://site.test:{port}/")
    trusting = ssl.create_default_context(cafile=certificate.file)
    names = FakeResolver(site_test=HERE, other_test=HERE)
    access = WebAccess(allowed=("127.0.0.1",), resolve=names, tls=trusting)
    harness = ToolHarness(project, web=access)
    try:
        assert (await harness.done("web_fetch", url=f"https://site.test:{port}/")).text == "private"
        assert "is not encrypted" in await harness.refused("web_fetch", url=f"https://site.test:{port}/down")
        assert "its certificate is not trusted" in await harness.refused(
            "web_fetch", url=f"https://other.test:{port}/"
        )
        assert "its certificate is not trusted" in await web_harness(project).refused(
            "web_fetch", url=f"https://site.test:{port}/"
        )
    finally:
        await site.close()
        server.close()
        await server.wait_closed()
