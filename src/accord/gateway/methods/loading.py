"""Back to a session: load, with its history, and resume, without.

A session that is live here is joined: the gateway replays its own log, the agent hears nothing of it. One that is not is
opened again through the agent, by load where it can, so that what happened elsewhere is there too. Once begun, that goes on
to its end also without the client that wanted it, and one at a time; the history is then sent to each client at its own pace.
"""

import asyncio
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import structs

from accord.errors import NotFound, NotOffered, RpcError, StoreError
from accord.gateway.methods.joining import Rest, check_folders, join, known_session
from accord.gateway.methods.listing import check_theirs
from accord.gateway.methods.reviving import revive_now, told_of, with_ours
from accord.gateway.sessions import LiveSession
from accord.gateway.upstream import Answer, Upstream
from accord.schema import LoadSessionRequest, ResumeSessionRequest, ResumeSessionResponse, SessionUpdate
from accord.schema.codec import encode
from accord.session import ReplayEnded, ReplayStarted, SessionOpened

if TYPE_CHECKING:
    from accord.gateway.incoming import Incoming
    from accord.gateway.visitor import Visitor

Found: TypeAlias = tuple[LiveSession, Rest | None]


async def load(visitor: "Visitor", call: "Incoming") -> None:
    """Open a session with its history."""
    asked: LoadSessionRequest = call.read().value
    session, rest = await visitor.gateway.finish(_to_join(visitor, call, asked))
    if not call.over:
        await join(visitor, call, session, rest)


async def _to_join(visitor: "Visitor", call: "Incoming", asked: LoadSessionRequest) -> Found:
    """The session whose log is to be replayed; the call is over if the agent has replayed it itself."""
    gateway, agent, read_only = visitor.gateway, visitor.agent, visitor.visa.read_only
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is None or not session.live:
            check_folders(visitor.visa, asked.cwd, *(asked.additional_directories or ()))
        if session is not None and (session.live or read_only):
            return session, None
        if read_only:
            raise _no_session(asked.session_id)
        upstream = await agent.ready()
        if session is None:
            if not agent.offers("session/load"):
                raise _no_session(asked.session_id)
            await check_theirs(visitor, asked.session_id)
        if agent.offers("session/load"):
            return await _load(visitor, call, upstream, asked, session)
        assert session is not None
        try:
            await revive_now(visitor, session)
        except (RpcError, NotOffered) as error:
            gateway.note("session %s of %s can only be read: %s", session.id, agent.name, error)
        return session, None


async def _load(
    visitor: "Visitor",
    call: "Incoming",
    upstream: Upstream,
    asked: LoadSessionRequest,
    known: LiveSession | None,
) -> Found:
    """Through the agent: its replay goes to whoever asked, as far as that one reads so fast, and into the log once it is
    complete.
    """
    gateway, agent = visitor.gateway, visitor.agent
    lease = await gateway.room(visitor.visa)
    additional = tuple(asked.additional_directories or ())
    session = known or gateway.sessions.add(agent, asked.session_id, asked.cwd, additional)
    before = session.additional
    gateway.move(session, additional)  # a session that is known stays in its folder
    servers = with_ours(agent, asked.mcp_servers or [])
    session.mcp_servers = encode(asked.mcp_servers or [])
    session.loading, session.loader, session.held = [], visitor, None
    over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    entry = call.entry
    assert entry is not None
    shown = False
    rest: Rest | None = None

    def done(answer: Answer) -> None:
        nonlocal rest, shown
        replayed, session.loading, session.loader = session.loading or [], None, None
        held, session.held = session.held, None
        shown = bool(replayed)
        try:
            read = upstream.result(entry, answer)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: told below
            lease.release()
            over.set_result(error)
            return
        session.live = True
        session.count(lease, visitor.visa)
        session.log.append(ReplayStarted(), *replayed, ReplayEnded())
        session.opened(told_of(session, read.value))
        if held is None:
            taken_back = call.over
            call.give(read.value, read.body)
            if not taken_back:
                gateway.attach(visitor, session)
        else:
            reading = session.log.reading()
            try:
                reading.skip()
            except StoreError as error:
                gateway.note("session %s of %s: %s", session.id, agent.name, error)
            rest = Rest(cast(list[SessionUpdate], replayed[held:]), reading, read.value)
        gateway.overview.changed(session)
        over.set_result(None)

    body = encode(structs.replace(asked, cwd=session.cwd, mcp_servers=servers))
    visitor.forward(call, upstream, body, done)
    failure = await over
    if failure is None:
        return session, rest
    if known is None:
        gateway.sessions.forget(session)
        gateway.sessions.book.delete(agent.name, session.id)
        raise failure
    gateway.move(session, before)
    if shown:  # the whole log behind a part of the history would show that part twice
        raise failure
    gateway.note("session %s of %s can only be read: %s", session.id, agent.name, failure)
    return session, None


async def resume(visitor: "Visitor", call: "Incoming") -> None:
    """Go on with a session, without its history."""
    asked: ResumeSessionRequest = call.read().value
    gateway = visitor.gateway
    session = await gateway.finish(_to_resume(visitor, asked))
    stands = session.settings.whole(SessionOpened(session.id))
    call.give(ResumeSessionResponse(modes=stands.modes, config_options=stands.config_options))
    gateway.attach(visitor, session)
    for frame in session.latest:
        visitor.post(frame, session.id)


async def _to_resume(visitor: "Visitor", asked: ResumeSessionRequest) -> LiveSession:
    gateway, agent, read_only = visitor.gateway, visitor.agent, visitor.visa.read_only
    additional = tuple(asked.additional_directories or ())
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is not None and (session.live or read_only):
            return session
        if read_only:
            raise _no_session(asked.session_id)
        check_folders(visitor.visa, asked.cwd, *additional)
        if session is not None:
            gateway.move(session, additional)
            session.mcp_servers = encode(asked.mcp_servers or [])
            await revive_now(visitor, session)
            return session
        await check_theirs(visitor, asked.session_id)
        session = gateway.sessions.add(agent, asked.session_id, asked.cwd, additional)
        session.mcp_servers = encode(asked.mcp_servers or [])
        try:
            await revive_now(visitor, session)
        except BaseException:
            gateway.sessions.forget(session)
            gateway.sessions.book.delete(agent.name, session.id)
            raise
        return session


def _no_session(session_id: str) -> NotFound:
    return NotFound("There is no such session", {"sessionId": session_id})
