"""Mistakes of the application are reported: failing functions, wrong arguments, a wrong event loop."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.raw_agent import YES_NO, in_session

from accord.agent import Agent
from accord.client import ClientHandlers, connect
from accord.errors import InvalidParams, NeverStarted, UsageError

QUESTION = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": YES_NO}
FORM = {
    "sessionId": "s1",
    "mode": "form",
    "message": "?",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}
URL = {"sessionId": "s1", "mode": "url", "elicitationId": "e", "message": "?", "url": "https://example.com"}
READ = {"sessionId": "s1", "path": "/x"}


def plain(*_: Any) -> Any:
    raise LookupError("a mistake")


async def later(*_: Any) -> Any:
    raise LookupError("a mistake")


class Unreadable:
    """A workspace whose methods fail."""

    read_text_file = staticmethod(later)

    async def aclose(self) -> None:
        """Nothing is open."""


def unreadable(_: Any) -> Any:
    return Unreadable()


@pytest.mark.parametrize(
    ("method", "params", "handlers"),
    [
        ("session/request_permission", QUESTION, lambda fail: ClientHandlers(permissions=fail)),
        ("elicitation/create", FORM, lambda fail: ClientHandlers(forms=fail)),
        ("elicitation/create", URL, lambda fail: ClientHandlers(urls=fail)),
        ("fs/read_text_file", READ, lambda fail: ClientHandlers(workspace=fail)),
        ("fs/read_text_file", READ, lambda fail: ClientHandlers(workspace=unreadable)),
        ("_vendor/thing", {}, lambda fail: ClientHandlers(extensions={"_vendor/thing": fail})),
    ],
    ids=["permissions", "forms", "urls", "workspace", "workspace method", "extension"],
)
@pytest.mark.parametrize("fail", [plain, later], ids=["plain", "async"])
async def test_an_exception_of_the_application_is_logged_with_its_traceback(
    method: str,
    params: Any,
    handlers: Callable[[Any], ClientHandlers],
    fail: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if method == "fs/read_text_file":
        fail = plain  # a workspace is made by a plain function
    with caplog.at_level(logging.ERROR, "accord.client"):
        async with in_session(handlers=handlers(fail)) as (_, peer):
            answer = await peer.answer_to(peer.ask(method, params))
    assert "LookupError" in caplog.text
    assert "a mistake" in caplog.text
    assert Path(__file__).name in caplog.text, "the traceback shows the line of the application"
    if method == "session/request_permission":
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_an_error_that_answers_the_agent_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Any) -> Any:
        raise InvalidParams("not this one")

    async with in_session(handlers=ClientHandlers(extensions={"_vendor/thing": refuse})) as (_, peer):
        assert (await peer.error_of("_vendor/thing", {}))["code"] == -32602
    assert caplog.text == ""


async def test_a_command_in_one_word_hints_at_separate_arguments() -> None:
    with pytest.raises(NeverStarted, match=r'separate words: "python", "x\.py"$'):
        async with connect("python x.py"):
            pass


@pytest.mark.parametrize("word", [["python", "x.py"], None, Path("x.py")])
def test_a_command_that_is_not_text_is_a_clear_error(word: Any) -> None:
    with pytest.raises(UsageError, match=r"as separate strings, such as connect\('some-agent', .*; got"):
        connect(word)


@pytest.mark.parametrize("folder", [None, 3, ["/"]])
async def test_a_session_without_a_folder_is_a_clear_error(folder: Any) -> None:
    async with in_session() as (session, _):
        for open_session in (
            lambda: session.agent.new_session(folder),
            lambda: session.agent.load_session("s1", folder),
        ):
            with pytest.raises(UsageError, match="needs the path of its folder"):
                await open_session()


@pytest.mark.parametrize("side", ["client", "agent"])
def test_without_asyncio_as_under_trio_there_is_one_clear_error(side: str) -> None:
    """Another event loop runs the first step of the program just so; nothing is started before the error."""
    agent = Agent("x")
    agent.prompt(later)
    first_step = connect("cat").__aenter__() if side == "client" else agent.serve_stdio()
    with pytest.raises(
        UsageError, match=r"needs a running asyncio event loop.*asyncio\.run\(\).*trio"
    ) as error:
        first_step.send(None)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
