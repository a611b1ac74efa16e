"""An example agent that remembers: it stores what was said, lists it page by page, and takes it up again.

`remember X` keeps X, `recall` says all that was kept; sessions can be loaded, resumed, forked, renamed, archived and deleted.
"""

from dataclasses import dataclass, field

from accord.agent import Accepts, Agent, AgentSession, ClientRequest, Turn, unknown_session
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
class Story:
    """One stored session."""

    id: str
    cwd: str
    facts: list[str] = field(default_factory=list[str])
    history: list[SessionUpdate] = field(default_factory=list[SessionUpdate])
    title: str | None = None
    titled_by_client: bool = False
    archived: bool = False
    instructions: str = ""


def keeper(stories: dict[str, Story] | None = None) -> Agent:
    """The agent, on this store; two of them may share one, as two runs of a program would."""
    kept: dict[str, Story] = {} if stories is None else stories
    accepts = Accepts(additional_directories=True, system_prompt="append")
    agent = Agent("keeper", version="1.0", accepts=accepts)

    def stored(session_id: str) -> Story:
        if session_id not in kept:
            raise unknown_session(session_id)
        return kept[session_id]

    def instruct(session: AgentSession, story: Story) -> None:
        if session.system_prompt:
            story.instructions = "".join(
                block.text for block in session.system_prompt.content if isinstance(block, TextContent)
            )
        session.data = story

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        kept[session.id] = story = Story(session.id, session.cwd)
        instruct(session, story)

    @agent.load_session
    async def load(session: AgentSession) -> None:
        story = stored(session.id)
        for update in story.history:
            await session.update(update)
        instruct(session, story)

    @agent.resume_session
    async def resume(session: AgentSession) -> None:
        instruct(session, stored(session.id))
        await session.title(session.data.title)

    @agent.fork_session
    async def fork(session: AgentSession, source: str) -> None:
        story = stored(source)
        kept[session.id] = copy = Story(session.id, session.cwd, list(story.facts), list(story.history))
        instruct(session, copy)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        story: Story = turn.session.data
        verb, _, rest = turn.text.partition(" ")
        if verb == "remember":
            story.facts.append(rest)
            text = "noted"
        else:
            text = ", ".join(story.facts) or "nothing"
        if story.instructions:
            text = f"{story.instructions} {text}"
        if not story.titled_by_client:
            story.title = turn.text[:20]
        story.history.append(UserMessageChunk(TextContent(turn.text), f"u{len(story.history)}"))
        story.history.append(AgentMessageChunk(TextContent(text), f"a{len(story.history)}"))
        await turn.notice("Saved")
        await turn.say(text)

    @agent.list_sessions
    async def listed(request: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        wanted = {"include": (False, True), "only": (True,)}.get(request.archived or "exclude", (False,))
        found = [story for story in kept.values() if request.cwd in (story.cwd, None) or not request.cwd]
        found = [story for story in found if story.archived in wanted]
        cursor = request.cursor or "0"
        if not cursor.isdigit() or int(cursor) > len(found):
            raise InvalidParams(f"Unknown cursor: {cursor}")
        start = int(cursor)
        page = [
            SessionInfo(story.id, story.cwd, title=story.title, archived=story.archived)
            for story in found[start : start + PAGE]
        ]
        more = start + PAGE < len(found)
        return ListSessionsResponse(page, str(start + PAGE) if more else None)

    @agent.delete_session
    async def delete(session_id: str, call: ClientRequest) -> None:
        kept.pop(session_id, None)

    @agent.on("session/archive")
    async def archive(request: ArchiveSessionRequest, call: ClientRequest) -> None:
        stored(request.session_id).archived = True

    @agent.on("session/unarchive")
    async def unarchive(request: UnarchiveSessionRequest, call: ClientRequest) -> None:
        stored(request.session_id).archived = False

    @agent.on("session/status")
    async def status(request: SessionStatusRequest, call: ClientRequest) -> SessionStatusResponse:
        stored(request.session_id)
        is_open = any(request.session_id in connection.sessions for connection in agent.connections)
        return SessionStatusResponse("open" if is_open else "saved")

    @agent.on("session/set_title")
    async def set_title(request: SetSessionTitleRequest, call: ClientRequest) -> SetSessionTitleResponse:
        story = stored(request.session_id)
        title = request.title.strip()
        if not title:
            raise InvalidParams("The title is empty")
        story.title, story.titled_by_client = title, True
        return SetSessionTitleResponse(title)

    return agent
