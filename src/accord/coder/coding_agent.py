"""The coding agent as an ACP agent: its handlers and capabilities, serving on stdio.

Loaded before `initialize` is answered: keep heavy imports out. Models and tools load in a thread afterwards.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

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
from accord.schema.methods import (
    AGENTAO_ASK_USER,
    AGENTAO_SET_MODEL,
    SESSION_ARCHIVE,
    SESSION_BATCH_GET,
    SESSION_LIST_SUBSCRIBE,
    SESSION_LIST_UNSUBSCRIBE,
    SESSION_RENAME,
    SESSION_REWIND,
    SESSION_REWIND_POINTS,
    SESSION_STEERING,
    SESSION_UNARCHIVE,
)
from accord.wire.transport import Transport

HELD_PROMPTS: Final = 100
"""How many prompts of a session wait for its running turn."""
EXTENSIONS: Final = "_agentao.cn/extensions"
SESSION_INDEX: Final = (
    SESSION_RENAME, SESSION_ARCHIVE, SESSION_UNARCHIVE, SESSION_BATCH_GET, SESSION_LIST_SUBSCRIBE,
    SESSION_LIST_UNSUBSCRIBE,
)  # fmt: skip
"""The methods of the extension `sessionIndex`."""

META: Final[dict[str, Any]] = {
    "accord": {"extensions": [AGENTAO_SET_MODEL], "asks": [AGENTAO_ASK_USER]},
    EXTENSIONS: [
        {"method": AGENTAO_SET_MODEL, "description": "Use another model: {sessionId, model} gives {model}"},
        {"method": AGENTAO_ASK_USER, "description": "Ask the user: {sessionId, question} gives {answer}"},
    ],
}
"""The extension methods, for the `_meta` of the capabilities."""


def serve(options: CoderOptions) -> None:
    """Serve ACP on stdin and stdout until the client disconnects."""
    from accord.agent.app import run
    from accord.coder.resources import log_to_stderr

    log_to_stderr()
    resources = CoderResources(options)
    agent = coding_agent(resources)
    run(_serve(agent, resources), uvloop=False)


async def _serve(agent: Agent, resources: CoderResources) -> None:
    try:
        await agent.serve_stdio(strict=resources.options.strict, wrap=_transport_wrapper(resources))
    finally:
        await resources.aclose()


def _transport_wrapper(resources: CoderResources) -> Callable[[Transport], Transport]:
    """Return a function that wraps transports: trace frames if a file is set; commit before sends."""

    def wrap(transport: Transport) -> Transport:
        from accord.store.commit_transport import CommitTransport

        if resources.options.trace_file is not None:
            from accord.trace import record_to_file

            transport = record_to_file(transport, resources.options.trace_file, by="accord agent")
        return CommitTransport(transport, resources)

    return wrap


def coding_agent(resources: CoderResources) -> Agent:
    """The agent, for `serve` or for a program that connects it.

    Wrap each transport in `CommitTransport(..., resources)`.
    """
    agent = Agent(
        "accord",
        version=__version__,
        title="Accord",
        accepts=AgentFeatures(
            image=resources.sees_images,
            embedded_context=True,
            mcp_http=True,
            mcp_sse=True,
            mcp_acp=True,
            additional_directories=True,
            system_prompt="override",
            meta=META,
        ),
        auth_methods=auth_methods(),
        protocol=(1, 2),
        options=AgentOptions(
            strict=resources.options.strict,
            held_prompts=HELD_PROMPTS,
            clock=resources.options.clock,
            refused_members=REFUSED_MEMBERS,
        ),
    )
    service = _Service(resources)
    agent.on("initialize")(service.initialize)
    agent.authenticate(resources.sign_in.authenticate)
    agent.logout(resources.sign_in.logout)
    agent.new_session(service.session_handler("new"))
    agent.load_session(service.session_handler("load"))
    agent.resume_session(service.session_handler("resume"))
    agent.fork_session(service.session_handler("fork"))
    agent.close_session(service.session_handler("close"))
    agent.list_sessions(service.session_handler("list"))
    agent.delete_session(service.session_handler("delete"))
    agent.prompt(service.prompt)
    agent.set_mode(service.set_mode)
    agent.set_config_option(service.set_config_option)
    agent.on(AGENTAO_SET_MODEL)(service.set_model)
    agent.on(SESSION_STEERING)(lambda params, call: service.steer(params, call, agent.accepts))
    agent.on(SESSION_REWIND_POINTS)(service.rewind_points)
    agent.on(SESSION_REWIND)(service.rewind)
    for method in ("archive", "unarchive", "status", "set_title"):
        agent.on(f"session/{method}")(service.index_handler(method))
    for method in SESSION_INDEX:
        agent.on(method)(service.index_handler(method))
    return agent


class _Service:
    """The request handlers. Each imports what it needs; most of it is loaded by then."""

    def __init__(self, resources: CoderResources) -> None:
        self._resources = resources

    def session_handler(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The method of this name of `SessionLifecycle`."""

        async def handle(*arguments: Any) -> Any:
            from accord.coder.session.session_lifecycle import SessionLifecycle

            return await getattr(SessionLifecycle(self._resources), name)(*arguments)

        return handle

    def initialize(self, request: InitializeRequest, call: ClientRequest) -> InitializeResponse:
        call.after_answer(self._resources.preload)
        answer = call.connection.describe()
        # Agentao clients look for their extensions here, and clients of `_session/...` for those.
        supported = {"supported": True}
        answer.meta = {EXTENSIONS: META[EXTENSIONS], "steering": supported, "rewind": supported}
        answer.meta["sessionIndex"] = supported
        return answer

    async def prompt(self, turn: Turn) -> PromptResponse:
        from accord.coder.turn.prompt_answer import answer_prompt

        return await answer_prompt(turn)

    async def set_mode(self, session: AgentSession, mode_id: str) -> None:
        session.data.before_mode_change(mode_id)

    async def set_config_option(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        from accord.coder.session.session_options import set_option

        await set_option(session.data, config_id, value)

    def index_handler(self, method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A method of the list of sessions."""

        async def handle(params: Any, call: ClientRequest) -> Any:
            from accord.coder.session.session_index import ListedSessions

            resources = self._resources
            index = resources.session_index = resources.session_index or ListedSessions(resources)
            return await index.serve(method, params, call)

        return handle

    def steer(self, params: Any, call: ClientRequest, accepts: AgentFeatures) -> dict[str, str]:
        from accord.coder.session.steering import steer

        return steer(params, call, accepts, strict=self._resources.options.strict)

    async def rewind_points(self, params: Any, call: ClientRequest) -> dict[str, Any]:
        from accord.coder.session.rewind import serve_points

        return await serve_points(params, call)

    async def rewind(self, params: Any, call: ClientRequest) -> dict[str, Any]:
        from accord.coder.session.rewind import serve_rewind

        return await serve_rewind(params, call)

    async def set_model(self, params: Any, call: ClientRequest) -> dict[str, str]:
        """`_agentao.cn/set_model`: any name that the provider accepts."""
        from accord.coder.session.session_options import set_model

        values: dict[str, Any] = cast(dict[str, Any], params) if isinstance(params, dict) else {}
        session_id, model = values.get("sessionId"), values.get("model")
        if not isinstance(session_id, str) or not isinstance(model, str) or not model.strip():
            raise InvalidParams(f"{AGENTAO_SET_MODEL} needs sessionId and model, both strings")
        session = call.connection.sessions.get(session_id)
        if session is None:
            from accord.agent.capabilities import unknown_session

            raise unknown_session(session_id)
        model_name = await set_model(session.data, model, notify=True)
        return {"model": model_name.name}
