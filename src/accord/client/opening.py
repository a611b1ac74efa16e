"""Opening sessions: new, load, resume, fork, and taking them up again after a restart.

A session is in the table the moment its answer is read, in the order of the wire, so that no update of it gets lost. A
session that is loaded is there before the request, because its replay comes before the answer.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from accord.client import gates
from accord.client.events import SessionLost, SessionReattached
from accord.client.link import Link
from accord.client.session import ClientSession
from accord.client.setup import SessionSetup
from accord.errors import BadAnswer, LimitReached, NotOffered, RpcError
from accord.session import ReplayEnded, ReplayStarted

if TYPE_CHECKING:
    from accord.client.life import Life


async def new(life: "Life", setup: SessionSetup) -> ClientSession:
    """`session/new`."""
    link = await _checked(life, "session/new", setup)
    return await link.call("session/new", setup.new(), read=_born(life, link, "session/new", setup))


async def fork(life: "Life", source: str, setup: SessionSetup) -> ClientSession:
    """`session/fork`. Unstable."""
    link = await _checked(life, "session/fork", setup)
    read = _born(life, link, "session/fork", setup)
    return await link.call("session/fork", setup.fork(source), read=read, key=source)


async def load(life: "Life", session_id: str, setup: SessionSetup) -> ClientSession:
    """`session/load`: the history is replayed into the session's state."""
    link = await _checked(life, "session/load", setup)
    session, known = _session(life, session_id, setup)
    try:
        await _load(session, link, setup)
    except BaseException:
        if not known:
            life.sessions.remove(session)
        raise
    return session


async def resume(life: "Life", session_id: str, setup: SessionSetup) -> ClientSession:
    """`session/resume`: the session goes on, without a replay."""
    link = await _checked(life, "session/resume", setup)
    session, known = _session(life, session_id, setup)
    try:
        await _resume(session, link, setup)
    except BaseException:
        if not known:
            life.sessions.remove(session)
        raise
    return session


async def reattach(life: "Life", session: ClientSession, link: Link) -> None:
    """Take a session up again on a new connection; by resume, else by load, else it is lost."""
    reason = "the agent offers neither session/resume nor session/load"
    for by, take_up in (("resume", _resume), ("load", _load)):
        method = f"session/{by}"
        try:
            gates.require(method, link.capabilities)
            session.setup.check(link.capabilities)
            await take_up(session, link, session.setup)
        except NotOffered:
            continue
        except (RpcError, BadAnswer, LimitReached) as error:
            reason = f"{method}: {error}"
            continue
        event = SessionReattached(session.id, "resume" if by == "resume" else "load")
        session.tell(event)
        life.tell(event)
        return
    session.lost = reason
    lost = SessionLost(session.id, reason)
    session.tell(lost)
    life.tell(lost)
    # Out of the table: the agent has forgotten it, and may well give the same id to the next session.
    await session.shut("it was lost when the agent was restarted")


async def _checked(life: "Life", method: str, setup: SessionSetup) -> Link:
    link = await life.ready()
    gates.require(method, link.capabilities)
    setup.check(link.capabilities)
    gates.insist_on_validity("session/new", setup.new())
    return link


def _session(life: "Life", session_id: str, setup: SessionSetup) -> tuple[ClientSession, bool]:
    """The session of this id, and whether it was open before."""
    session = life.sessions.find(session_id)
    if session is not None:
        return session, True
    session = ClientSession(life, session_id, setup)
    life.sessions.add(session)
    return session, False


def _born(life: "Life", link: Link, method: str, setup: SessionSetup) -> Any:
    """Reads the answer that names a new session, and puts the session into the table on the spot."""
    result = link.result_of(method)

    def read(raw: Raw) -> ClientSession:
        answer = result(raw)
        session = life.sessions.find(answer.session_id) or ClientSession(life, answer.session_id, setup)
        session.opened(setup, answer)
        life.sessions.add(session)
        return session

    return read


async def _load(session: ClientSession, link: Link, setup: SessionSetup) -> None:
    result = link.result_of("session/load")

    def read(raw: Raw) -> Any:
        answer = result(raw)
        session.replaying = False
        session.publish(ReplayEnded())
        session.opened(setup, answer)
        return answer

    session.replaying = True
    session.publish(ReplayStarted())
    try:
        await link.streaming_call(
            "session/load", setup.load(session.id), read=read, key=session.id, still=lambda: session.busy
        )
    finally:
        if session.replaying:
            # It failed half-way: what was known before is more than what came.
            session.replaying = False
            if session.state.set_aside is not None:
                session.state.history, session.state.set_aside = session.state.set_aside, None


async def _resume(session: ClientSession, link: Link, setup: SessionSetup) -> None:
    result = link.result_of("session/resume")

    def read(raw: Raw) -> Any:
        answer = result(raw)
        session.opened(setup, answer)
        return answer

    await link.streaming_call(
        "session/resume", setup.resume(session.id), read=read, key=session.id, still=lambda: session.busy
    )
