"""An example agent with stored sessions: it lists them page by page, loads and resumes them.

`remember X` stores X, `recall` answers with everything stored. Sessions can be loaded, resumed, forked,
renamed, archived and deleted.
"""

from dataclasses import dataclass, field

from accord.agent import Agent, AgentFeatures, AgentSession, ClientRequest, Turn, unknown_session
from accord.errors import InvalidParams
from accord.schema import (
    AgentMessageChunk,
    ArchiveSessionRequest,
    ListSessionsRequest,
    ListSessionsResponse,
    SessionInfo,
    SessionStatusRequest,
    SessionStatusResponse,
    SessionUpdate,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    TextContent,
    UnarchiveSessionRequest,
    UserMessageChunk,
)

PAGE = 2


@dataclass
class StoredSession:
    """One stored session."""

    id: str
    cwd: str
    facts: list[str] = field(default_factory=list[str])
    history: list[SessionUpdate] = field(default_factory=list[SessionUpdate])
    title: str | None = None
    titled_by_client: bool = False
    archived: bool = False
    instructions: str = ""


def memory_agent(store: dict[str, StoredSession] | None = None) -> Agent:
    """Create the agent on this store. Two agents may share a store, like two runs of one program."""
    sessions: dict[str, StoredSession] = {} if store is None else store
    accepts = AgentFeatures(additional_directories=True, system_prompt="append")
    agent = Agent("memory_agent", version="1.0", accepts=accepts)

    def find(session_id: str) -> StoredSession:
        if session_id not in sessions:
            raise unknown_session(session_id)
        return sessions[session_id]

    def attach(session: AgentSession, stored_session: StoredSession) -> None:
        if session.system_prompt:
            stored_session.instructions = "".join(
                block.text for block in session.system_prompt.content if isinstance(block, TextContent)
            )
        session.data = stored_session

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        sessions[session.id] = stored_session = StoredSession(session.id, session.cwd)
        attach(session, stored_session)

    @agent.load_session
    async def load(session: AgentSession) -> None:
        stored_session = find(session.id)
        for update in stored_session.history:
            await session.update(update)
        attach(session, stored_session)

    @agent.resume_session
    async def resume(session: AgentSession) -> None:
        attach(session, find(session.id))
        await session.title(session.data.title)

    @agent.fork_session
    async def fork(session: AgentSession, source: str) -> None:
        stored_session = find(source)
        sessions[session.id] = copy = StoredSession(
            session.id, session.cwd, list(stored_session.facts), list(stored_session.history)
        )
        attach(session, copy)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        stored_session: StoredSession = turn.session.data
        verb, _, rest = turn.text.partition(" ")
        if verb == "remember":
            stored_session.facts.append(rest)
            text = "noted"
        else:
            text = ", ".join(stored_session.facts) or "nothing"
        if stored_session.instructions:
            text = f"{stored_session.instructions} {text}"
        if not stored_session.titled_by_client:
            stored_session.title = turn.text[:20]
        stored_session.history.append(
            UserMessageChunk(TextContent(turn.text), f"u{len(stored_session.history)}")
        )
        stored_session.history.append(AgentMessageChunk(TextContent(text), f"a{len(stored_session.history)}"))
        await turn.notice("Saved")
        await turn.say(text)

    @agent.list_sessions
    async def listed(request: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        wanted = {"include": (False, True), "only": (True,)}.get(request.archived or "exclude", (False,))
        found = [
            stored_session
            for stored_session in sessions.values()
            if request.cwd in (stored_session.cwd, None) or not request.cwd
        ]
        found = [stored_session for stored_session in found if stored_session.archived in wanted]
        cursor = request.cursor or "0"
        if not cursor.isdigit() or int(cursor) > len(found):
            raise InvalidParams(f"Unknown cursor: {cursor}")
        start = int(cursor)
        page = [
            SessionInfo(
                stored_session.id,
                stored_session.cwd,
                title=stored_session.title,
                archived=stored_session.archived,
            )
            for stored_session in found[start : start + PAGE]
        ]
        more = start + PAGE < len(found)
        return ListSessionsResponse(page, str(start + PAGE) if more else None)

    @agent.delete_session
    async def delete(session_id: str, call: ClientRequest) -> None:
        sessions.pop(session_id, None)

    @agent.on("session/archive")
    async def archive(request: ArchiveSessionRequest, call: ClientRequest) -> None:
        find(request.session_id).archived = True

    @agent.on("session/unarchive")
    async def unarchive(request: UnarchiveSessionRequest, call: ClientRequest) -> None:
        find(request.session_id).archived = False

    @agent.on("session/status")
    async def status(request: SessionStatusRequest, call: ClientRequest) -> SessionStatusResponse:
        find(request.session_id)
        is_open = any(request.session_id in connection.sessions for connection in agent.connections)
        return SessionStatusResponse("open" if is_open else "saved")

    @agent.on("session/set_title")
    async def set_title(request: SetSessionTitleRequest, call: ClientRequest) -> SetSessionTitleResponse:
        stored_session = find(request.session_id)
        title = request.title.strip()
        if not title:
            raise InvalidParams("The title is empty")
        stored_session.title, stored_session.titled_by_client = title, True
        return SetSessionTitleResponse(title)

    return agent
