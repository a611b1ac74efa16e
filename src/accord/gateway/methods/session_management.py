"""What users do with sessions in the list, `_accord/session/...`: rename, archive, search and export.

The search index and the documents are made in threads.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.errors import InvalidParams, InvalidRequest, NotFound, RpcError, StoreError, UsageError
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.parameters import bool_param, read_params, text_param, without_none
from accord.gateway.methods.session_restore import find_session
from accord.gateway.session_log import FileBook
from accord.schema import SessionInfoUpdate
from accord.schema.codec import encode

if TYPE_CHECKING:
    from accord.frontend.session_search import SearchHit
    from accord.gateway.gateway_client import ClientCall, GatewayClient

_MAX_HITS: Final = 50
_SEARCHED_HITS: Final = 500
"""Hits that are read from the index, which has sessions of other folders and programs, too."""
_MAX_QUERY: Final = 400
_MAX_EXPORT: Final = 16 << 20
_MAX_NAME: Final = 60


async def _session(client: "GatewayClient", params: dict[str, Any]) -> LiveSession:
    session = await find_session(client, session_id := text_param(params, "sessionId"))
    if session is None:
        raise NotFound("session not found", {"sessionId": session_id})
    return session


async def rename(client: "GatewayClient", call: "ClientCall") -> None:
    """Give a session another title."""
    params = read_params(call)
    session = await _session(client, params)
    title = text_param(params, "title")
    _change(client, session, title=title)
    summary = session.log.summary
    session.title = title if summary is None else summary.title
    client.gateway.send_update(
        session, SessionInfoUpdate(title=session.title or title), session.clients, is_logged=False
    )
    call.answer(encode({"title": session.title}))


async def archive(client: "GatewayClient", call: "ClientCall") -> None:
    """Move a session to the archive, or out of it."""
    params = read_params(call)
    session = await _session(client, params)
    _change(client, session, archived=bool_param(params, "archived", True))
    call.answer(b"{}")


def _change(client: "GatewayClient", session: LiveSession, **changes: Any) -> None:
    try:
        session.log.change_entry(**changes)
    except StoreError as error:
        raise RpcError(f"cannot change session {session.id}: {error}") from None
    client.gateway.overview.notify_changed(session)
    client.gateway.forget_unused(session)


async def search(client: "GatewayClient", call: "ClientCall") -> None:
    """Find the sessions in which all words were said, the best first, with the passages."""
    query = text_param(read_params(call), "query")
    if len(query) > _MAX_QUERY:
        raise InvalidParams(f"Invalid params: `query` must have at most {_MAX_QUERY} characters")
    gateway = client.gateway
    gateway.book.commit()
    if not isinstance(gateway.book, FileBook):  # a cluster has no index of what was said
        sessions, _ = await gateway.overview.list_sessions(client.rights, query, _MAX_HITS)
        call.answer(encode({"sessions": sessions, "titlesOnly": True}))
        return
    from accord.frontend.session_search import search_sessions  # on first use: it needs SQLite

    try:
        async with gateway.search_lock:
            hits = await asyncio.to_thread(
                search_sessions, query, limit=_SEARCHED_HITS, stopped=lambda: not client.connected
            )
    except UsageError:
        hits = list["SearchHit"]()  # only punctuation
    except StoreError as error:
        raise InvalidRequest(str(error)) from None
    found: list[dict[str, Any]] = []
    for hit in hits:
        recorded = gateway.book.find(hit.agent, hit.session_id)
        entry = None if recorded is None else gateway.overview.entry(recorded, client.rights)
        if entry is not None and len(found) < _MAX_HITS:
            matches = [
                {"role": match.role, "text": match.text, "marked": match.marked} for match in hit.matches
            ]
            found.append({**entry, "matches": matches})
    call.answer(encode({"sessions": found}))


async def export(client: "GatewayClient", call: "ClientCall") -> None:
    """Return the conversation as a Markdown document."""
    session = await _session(client, read_params(call))
    gateway = client.gateway
    reader = session.log.reader()
    try:
        while await reader.page():
            pass
    except StoreError as error:
        raise RpcError(f"cannot read the session: {error}") from None
    check_folders(client.rights, *session.folders)  # they may have changed
    recorded = gateway.book.find(session.agent.name, session.id)
    if recorded is None:
        raise NotFound("session not found", {"sessionId": session.id})
    from accord.frontend.transcript import SessionListEntry, StoredTranscript, markdown  # on first use

    transcript = StoredTranscript(SessionListEntry.from_recording(recorded), reader.state, "recorded")
    text = await asyncio.to_thread(markdown, transcript)
    if len(text) > _MAX_EXPORT:
        raise InvalidRequest(
            f"the session is too long to export here ({len(text):,} characters, at most {_MAX_EXPORT:,}); "
            "use accord sessions export"
        )
    call.answer(encode(without_none(name=_file_name(transcript.title), text=text)))
    gateway.forget_unused(session)


def _file_name(title: str | None) -> str:
    words = "".join(char if char.isalnum() else " " for char in title or "session").split()
    return f"{'-'.join(words)[:_MAX_NAME].strip('-').lower() or 'session'}.md"


METHODS: Final[dict[str, Any]] = {
    "_accord/session/rename": rename,
    "_accord/session/archive": archive,
    "_accord/session/search": search,
    "_accord/session/export": export,
}
READ_ONLY_METHODS: Final = ("_accord/session/search", "_accord/session/export")
UNAUDITED_METHODS: Final = ("_accord/session/search",)
