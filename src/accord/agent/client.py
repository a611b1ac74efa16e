"""The client as an application sees it: who it is, what it can do, and the calls to it that need no turn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from accord.errors import MethodNotFound, UsageError
from accord.schema.capabilities import ClientCapabilities
from accord.schema.files import ReadTextFileRequest, WriteTextFileRequest
from accord.schema.initialize import Implementation
from accord.schema.jsontext import parse_json

from .peer import Peer

if TYPE_CHECKING:
    from .session import AgentSession


class Client:
    """The client of one connection."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it gave them."""
        return self._peer.info

    @property
    def capabilities(self) -> ClientCapabilities:
        """What its `initialize` said."""
        return self._peer.capabilities

    @property
    def can_read_files(self) -> bool:
        """`read_text_file` works."""
        fs = self.capabilities.fs
        return bool(fs) and fs.read_text_file is True

    @property
    def can_write_files(self) -> bool:
        """`write_text_file` works."""
        fs = self.capabilities.fs
        return bool(fs) and fs.write_text_file is True

    @property
    def can_run_terminals(self) -> bool:
        """`terminal` and `run` work."""
        return self.capabilities.terminal is True

    @property
    def can_show_forms(self) -> bool:
        """`elicit` works."""
        return bool((asking := self.capabilities.elicitation) and asking.form)

    @property
    def can_open_urls(self) -> bool:
        """`elicit_url` works."""
        return bool((asking := self.capabilities.elicitation) and asking.url)

    @property
    def can_sign_in_by_terminal(self) -> bool:
        """It can run this program in a terminal so that the user signs in there."""
        auth = self.capabilities.auth
        if auth and auth.terminal is True:
            return True
        # How clients said so before there was a capability for it, and how the agent registry still does.
        meta = self.capabilities.meta
        return not self._peer.reader.strict and bool(meta) and meta.get("terminal-auth") is True

    @property
    def takes_boolean_options(self) -> bool:
        """Config options may be on or off, not only a choice."""
        session = self.capabilities.session
        return bool(session and session.config_options and session.config_options.boolean)

    @property
    def shows_notices(self) -> bool:
        """Notices are shown as such."""
        return bool((session := self.capabilities.session) and session.notices)

    @property
    def shows_compaction(self) -> bool:
        """The compaction of the context is shown."""
        return bool((session := self.capabilities.session) and session.compaction)

    @property
    def shows_plans(self) -> bool:
        """Unstable. Several plans are shown side by side."""
        return bool(self.capabilities.plan)

    @property
    def shows_subagents(self) -> bool:
        """Unstable. Child sessions are shown."""
        return bool(self.capabilities.subagents)

    @property
    def refused(self) -> set[str]:
        """Extension methods that it has answered as unknown since it connected; add those you will not try again."""
        return self._peer.refused

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an extension method (`_vendor/name`) and return its result as plain JSON."""
        try:
            return await self._peer.ask(_extension(method), params or {}, key=None, read=_plain)
        except MethodNotFound:
            self._peer.refused.add(method)
            raise

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send an extension notification (`_vendor/name`)."""
        self._peer.connection.notify(_extension(method), params or {})


class SessionClient(Client):
    """The client of one session: paths are resolved against the session's directory."""

    def __init__(self, peer: Peer, session: "AgentSession") -> None:
        super().__init__(peer)
        self._session = session

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Read a file as the user sees it, unsaved changes included; from a line (the first is 1), so many lines."""
        self._peer.need(self.can_read_files, "fs/read_text_file")
        session = self._session
        params = ReadTextFileRequest(
            session.id,
            session.path(path),
            UNSET if line is None else _at_least(1, line, "line"),
            UNSET if limit is None else _at_least(0, limit, "limit"),
        )
        answer = await self._peer.call("fs/read_text_file", params, key=session.id)
        return answer.content

    async def write_text_file(self, path: str, content: str) -> None:
        """Replace a file's text, creating the file if need be."""
        self._peer.need(self.can_write_files, "fs/write_text_file")
        session = self._session
        params = WriteTextFileRequest(session.id, session.path(path), content)
        await self._peer.call("fs/write_text_file", params, key=session.id)


def _plain(raw: Raw) -> Any:
    return parse_json(raw)


def _extension(method: str) -> str:
    if not method.startswith("_"):
        raise UsageError(
            f"{method!r} cannot be sent: methods of your own begin with an underscore, such as `_vendor/name`"
        )
    return method


def _at_least(least: int, number: int, what: str) -> int:
    if number < least:
        raise UsageError(f"{what}={number} makes no sense: the least is {least}")
    return number
