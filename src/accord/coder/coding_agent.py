"""The coding agent as an ACP agent: which methods it serves and what it says about itself.

Nothing heavy is imported before `initialize` is answered. Right after it, models, tools and the rest load in a thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from accord import __version__
from accord.agent.agent_session import AgentSession
from accord.agent.app import Agent, AgentOptions
from accord.agent.capabilities import AgentFeatures
from accord.agent.decorators import ClientRequest
from accord.agent.turn import Turn
from accord.coder.resources import REFUSED_MEMBERS, CoderOptions, CoderResources, auth_methods
from accord.errors import InvalidParams
from accord.schema.content import PromptResponse
from accord.schema.initialize import InitializeRequest, InitializeResponse
from accord.wire.transport import Transport

if TYPE_CHECKING:
    from accord.coder.session_lifecycle import SessionLifecycle
    from accord.schema.session_requests import ListSessionsRequest, ListSessionsResponse

SET_MODEL: Final = "_agentao.cn/set_model"
ASK_USER: Final = "_agentao.cn/ask_user"
EXTENSIONS: Final = "_agentao.cn/extensions"

META: Final[dict[str, Any]] = {
    "accord": {"extensions": [SET_MODEL], "asks": [ASK_USER]},
    EXTENSIONS: [
        {"method": SET_MODEL, "description": "Think with another model: {sessionId, model} gives {model}"},
        {"method": ASK_USER, "description": "The agent asks the user: {sessionId, question} gives {answer}"},
    ],
}
"""The extensions, in the `_meta` of the capabilities."""


def serve(start: CoderOptions) -> None:
    """Speak ACP on stdin and stdout until the client goes away."""
    from accord.agent.app import run
    from accord.coder.resources import log_to_stderr

    log_to_stderr()
    coder = CoderResources(start)
    agent = coding_agent(coder)
    run(_serve(agent, coder), uvloop=False)


async def _serve(agent: Agent, coder: CoderResources) -> None:
    try:
        await agent.serve_stdio(strict=coder.start.strict, wrap=_wrapping(coder))
    finally:
        await coder.aclose()


def _wrapping(coder: CoderResources) -> Callable[[Transport], Transport]:
    """What stands between the pipe and the connection: the log first, and the recording of all that passes."""

    def wrap(transport: Transport) -> Transport:
        from accord.store.commit_transport import CommitTransport

        if coder.start.log is not None:
            from accord.trace import tapped

            transport = tapped(transport, coder.start.log, by="accord agent")
        return CommitTransport(transport, coder)

    return wrap


def coding_agent(coder: CoderResources) -> Agent:
    """The agent, for `serve` or for a program that connects it by itself: wrap its transports in `CommitTransport(..., coder)`."""
    agent = Agent(
        "accord",
        version=__version__,
        title="Accord",
        accepts=AgentFeatures(
            image=coder.sees_images,
            embedded_context=True,
            mcp_http=True,
            mcp_sse=True,
            additional_directories=True,
            system_prompt="override",
            meta=META,
        ),
        auth_methods=auth_methods(),
        options=AgentOptions(
            strict=coder.start.strict, clock=coder.start.clock, refused_members=REFUSED_MEMBERS
        ),
    )
    service = _Service(coder)
    agent.on("initialize")(service.initialize)
    agent.authenticate(coder.sign_in.authenticate)
    agent.logout(coder.sign_in.logout)
    agent.new_session(service.new)
    agent.load_session(service.load)
    agent.resume_session(service.resume)
    agent.fork_session(service.fork)
    agent.close_session(service.close)
    agent.list_sessions(service.list)
    agent.delete_session(service.delete)
    agent.prompt(service.prompt)
    agent.set_mode(service.set_mode)
    agent.set_config_option(service.set_config_option)
    agent.on(SET_MODEL)(service.set_model)
    return agent


class _Service:
    """The handlers. Each imports what it needs: most of it is there by then."""

    def __init__(self, coder: CoderResources) -> None:
        self._coder = coder

    @property
    def _sessions(self) -> "SessionLifecycle":
        from accord.coder.session_lifecycle import SessionLifecycle

        return SessionLifecycle(self._coder)

    def initialize(self, request: InitializeRequest, call: ClientRequest) -> InitializeResponse:
        call.after_answer(self._coder.preload)
        answer = call.connection.describe()
        answer.meta = {EXTENSIONS: META[EXTENSIONS]}  # where clients of Agentao look for it
        return answer

    async def new(self, session: AgentSession) -> None:
        await self._sessions.new(session)

    async def load(self, session: AgentSession) -> None:
        await self._sessions.load(session)

    async def resume(self, session: AgentSession) -> None:
        await self._sessions.resume(session)

    async def fork(self, session: AgentSession, source_id: str) -> None:
        await self._sessions.fork(session, source_id)

    async def close(self, session: AgentSession) -> None:
        await self._sessions.close(session)

    async def list(self, request: "ListSessionsRequest", call: ClientRequest) -> "ListSessionsResponse":
        return await self._sessions.list(request, call)

    async def delete(self, session_id: str, call: ClientRequest) -> None:
        await self._sessions.delete(session_id, call)

    async def prompt(self, turn: Turn) -> PromptResponse:
        from accord.coder.session_runtime import take_turn

        return await take_turn(turn)

    async def set_mode(self, session: AgentSession, mode_id: str) -> None:
        session.data.mode_chosen(mode_id)

    async def set_config_option(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        from accord.coder.session_options import set_option

        await set_option(session.data, config_id, value)

    async def set_model(self, params: Any, call: ClientRequest) -> dict[str, str]:
        """`_agentao.cn/set_model`: any name that the provider takes."""
        from accord.coder.session_options import set_model

        given: dict[str, Any] = cast(dict[str, Any], params) if isinstance(params, dict) else {}
        session_id, model = given.get("sessionId"), given.get("model")
        if not isinstance(session_id, str) or not isinstance(model, str) or not model.strip():
            raise InvalidParams(f"{SET_MODEL} takes sessionId and model, both texts")
        session = call.connection.sessions.get(session_id)
        if session is None:
            from accord.agent.capabilities import unknown_session

            raise unknown_session(session_id)
        name = await set_model(session.data, model, tell=True)
        return {"model": name.name}
