"""One message of a client that wants something done: what it is about, and how it is answered, once."""

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.errors import BadAnswer, RpcError
from accord.gateway.ending import rpc_error
from accord.gateway.line import Outgoing
from accord.gateway.official import Read, plain
from accord.gateway.upstream import Answer, Upstream
from accord.schema.codec import UNFIT, decoder, encode
from accord.schema.methods import Method, request
from accord.wire.envelope import encode_failure

if TYPE_CHECKING:
    from accord.gateway.visitor import Visitor

Lane: TypeAlias = str | tuple[str, str] | None
"""Messages of one lane are handled one after the other: those about one session, or of one method."""


class _Scope(Struct):
    """Which session a message is about."""

    session_id: Any = msgspec.field(name="sessionId", default=None)


class Incoming:
    """One request of the client, or a notification (`id` is UNSET)."""

    __slots__ = ("id", "lane", "method", "over", "params", "session_id", "visitor")

    def __init__(
        self, visitor: "Visitor", id: Any, method: str, params: Raw | None, session_id: str | None
    ) -> None:
        self.visitor = visitor
        self.id = id
        self.method = method
        self.params = params
        self.session_id = session_id
        self.lane = self._lane
        """Among which messages of its client it keeps its place."""
        self.over = id is UNSET
        """Whether it has been answered."""

    @property
    def _lane(self) -> Lane:
        if self.visitor.capabilities is None:
            return None  # everything waits for `initialize`
        if self.method.startswith("_accord/") or self.method == "session/list":
            return (
                "",
                self.method,
            )  # a list that an agent does not give keeps nothing else waiting, least of all an answer
        return self.session_id

    @property
    def entry(self) -> Method | None:
        """The method in the table."""
        return request("agent", self.method)

    def read(self) -> Read:
        """Its parameters. Raises InvalidParams."""
        entry = self.entry
        return plain(self.params) if entry is None else self.visitor.official.params(entry, self.params)

    def answer(self, result: bytes) -> None:
        """Answer it, once."""
        if not self.over:
            self.over = True
            self.visitor.done(self.id)
            body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (encode(self.id), result)
            self.visitor.post(Outgoing(body), self._stream)

    def fail(self, error: BaseException) -> None:
        """Answer it with an error, once."""
        if not self.over:
            self.over = True
            self.visitor.done(self.id)
            self.visitor.post(Outgoing(encode_failure(self.id, rpc_error(error))), self._stream)

    def give(self, value: Any, body: bytes | None = None) -> None:
        """Answer with a value, whose JSON text may be known; options that the client does not know are left out."""
        told = self.visitor.fitting(value)
        self.answer(encode(told) if body is None or told is not value else body)

    def settle(self, upstream: Upstream, answer: Answer) -> Any:
        """Answer as the agent did, in official shape; gives the result as it was understood, None for an error."""
        if answer.error is not None:
            self.fail(answer.error)
            return None
        assert answer.result is not None
        entry = self.entry
        try:
            read = plain(answer.result) if entry is None else upstream.official.result(entry, answer.result)
        except (RpcError, BadAnswer) as error:
            self.fail(error)
            return None
        self.give(read.value, read.body)
        return read.value

    @property
    def _stream(self) -> str | None:
        # Those open a session: whoever asked reads the connection's own stream.
        return None if self.method in ("session/new", "session/load", "session/fork") else self.session_id


def session_of(params: Raw | None) -> str | None:
    """Which session parameters name, if they do."""
    if params is None:
        return None
    try:
        found = decoder(_Scope).decode(params).session_id
    except UNFIT:
        return None
    return found if isinstance(found, str) else None
