"""Drive agents: one function per task."""

import asyncio
import sys

import accord
from accord.client import (
    DECLINED,
    AgentCommand,
    AgentEvent,
    AgentRestarted,
    AuthStatus,
    AuthStatusChanged,
    ClientEvent,
    ClientFeatures,
    DialectReport,
    ElicitationForm,
    ElicitationUrl,
    EventStream,
    FormAnswer,
    McpCall,
    McpMethodFailed,
    PendingAgent,
    SessionListChange,
    SessionLost,
    SessionReattached,
    SessionSubscription,
    TerminalPrinted,
    TerminalView,
)
from accord.testing import ScriptedAgent, ask, say, terminal, tool


async def start_a_program() -> None:
    command = (sys.executable, "-m", "accord.testing", "hostile", "noise")
    async with accord.connect(*command) as agent:
        session = await agent.new_session(".")
        answer: accord.TurnResult = await session.ask("Hello")
        assert answer.stop_reason == "end_turn"


async def connect_without_a_block() -> None:
    pending: PendingAgent = accord.connect_transport(ScriptedAgent([[say("Hi")]]).transport())
    agent: accord.RemoteAgent = await pending
    session: accord.ClientSession = await agent.new_session(".")
    assert (await session.ask("Hello")).text == "Hi"
    await agent.aclose()


def show(event: accord.ClientEvent) -> str:
    """Return what a client would print for an event."""
    match event:
        case accord.AgentMessageChunk() | accord.AgentThoughtChunk() | accord.UserMessageChunk():
            return event.text
        case accord.MessageChanged():
            return event.text
        case accord.ToolCallChanged(call=call):
            return f"[{call.status}] {call.label}"
        case accord.PlanChanged(plan_id=plan_id):
            return f"plan {plan_id}"
        case accord.PermissionAsked(options=options):
            return f"asked: {len(options)} options"
        case accord.PermissionAnswered(option=option):
            return f"answered: {option.name if option else 'cancelled'}"
        case accord.UsageUpdate(used=used, size=size):
            return f"{used} of {size} tokens"
        case accord.Notice():
            return "notice"
        case TerminalPrinted(text=text):
            return text
        case accord.TurnStarted():
            return "started"
        case accord.TurnEnded(raw_reason=reason):
            return f"-- {reason}"
        case accord.AgentEnded(error=error):
            return str(error)
        case _:
            return ""


async def print_the_events_of_a_turn() -> None:
    agent = ScriptedAgent([[tool("Look"), say("Done.")]])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session(".")
        lines = [show(event) async for event in session.prompt("go")]
    assert lines[-2:] == ["Done.", "-- end_turn"]


async def leave_a_turn_early() -> None:
    agent = ScriptedAgent([[say("One."), say("Two.")]])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session(".")
        events: EventStream[ClientEvent] = session.prompt("go")
        first = await anext(events)
        await events.aclose()  # cancels the turn
    assert isinstance(first, accord.TurnStarted)


async def decide_permission_requests() -> None:
    def decide(request: accord.PermissionRequest) -> str | None:
        option = request.option("allow_once") if request.call.kind == "read" else None
        return option.option_id if option else None

    agent = ScriptedAgent([[tool("Read a.txt", ask(), kind="read")]])
    handlers = accord.ClientHandlers(permissions=decide)
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        session = await remote.new_session(".")
        await session.ask("read")
    assert agent.outcomes == [True]


async def choose_a_ready_made_permission_handler() -> None:
    policy = accord.Policy(accord.Rules(allow=(accord.Rule(kind="edit", path="docs/**"),), default="reads"))
    for handler in (accord.reject_all, accord.allow_reads, accord.allow_all, accord.by_policy(policy)):
        agent = ScriptedAgent([[tool("Search", ask(), kind="search")]])
        handlers = accord.ClientHandlers(permissions=handler)
        async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
            await (await remote.new_session(".")).ask("search")
        assert agent.outcomes == [handler is not accord.reject_all]


async def offer_files_and_terminals() -> None:
    agent = ScriptedAgent([[terminal("echo", "hello")]])
    handlers = accord.ClientHandlers(workspace=accord.local_workspace, login=accord.run_in_terminal)
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        session = await remote.new_session(".")
        printed = [event.text async for event in session.prompt("run") if isinstance(event, TerminalPrinted)]
        views: list[TerminalView] = list(session.terminals.values())
    assert "hello" in "".join(printed) and "hello" in views[0].text


async def set_limits_and_restarts() -> None:
    options = accord.ClientOptions(
        limits=accord.TimeLimits(request=30, silence=300),
        restart=accord.RestartPolicy(max_restarts=3),
        features=ClientFeatures(plans=True),
    )
    agent = ScriptedAgent([[say("Hi")]])
    async with accord.connect_transport(agent.transport(), options=options) as remote:
        assert remote.options.limits.silence == 300


async def serve_forms_and_addresses() -> None:
    def fill_in(form: ElicitationForm) -> FormAnswer:
        return form.defaults or DECLINED

    def open_address(request: ElicitationUrl) -> bool:
        return request.host == "example.org" and not request.punycode

    handlers = accord.ClientHandlers(forms=fill_in, urls=open_address)
    assert handlers.forms is fill_in


def tell(event: AgentEvent) -> str:
    """Return a line about a restart, a lost session or a changed sign-in."""
    match event:
        case accord.AgentEnded(error=error):
            return f"ended: {error}"
        case AgentRestarted(attempt=attempt):
            return f"restarted ({attempt})"
        case SessionReattached(session_id=session_id, by=by):
            return f"{session_id} reopened by {by}"
        case SessionLost(session_id=session_id, reason=reason):
            return f"{session_id} lost: {reason}"
        case AuthStatusChanged(status=AuthStatus(state=state)):
            return f"sign-in: {state}"
        case _:
            return ""


async def watch_an_agent() -> None:
    assert tell(AgentRestarted(1)) == "restarted (1)"
    assert tell(SessionLost("s1", "gone")) == "s1 lost: gone"


async def follow_the_list_of_sessions() -> None:
    def show_titles(change: SessionListChange) -> None:
        print(*(info.title for info in change.sessions), "deleted:", *change.removed)

    async with accord.connect_transport(ScriptedAgent().transport()) as agent:
        changes: SessionSubscription = agent.follow_sessions(".")
        if not agent.can_follow_sessions:
            return  # entering the block would raise NotOffered
        async with changes:
            async for change in changes:
                show_titles(change)


async def serve_an_mcp_method() -> None:
    async def answer(call: McpCall) -> object:
        if call.method != "tools/list":
            raise McpMethodFailed(-32601, "no such method")
        return {"tools": []}

    assert callable(answer)


async def report_problems() -> None:
    reports: list[str] = []

    def observe(report: object) -> None:
        if isinstance(report, DialectReport):
            reports.append(report.detail)

    options = accord.ClientOptions(observer=observe)
    async with accord.connect_transport(ScriptedAgent().transport(), options=options) as remote:
        await remote.new_session(".")
    assert reports == []


async def describe_a_command() -> None:
    command = AgentCommand(("my-agent", "--acp"), cwd="/project", env={"DEBUG": "1"})
    assert str(command)


async def handle_errors() -> None:
    try:
        async with accord.connect("no-such-program"):
            pass
    except accord.AuthRequired as error:
        print("sign in with", error.methods[0].name)
    except (accord.NeverStarted, accord.HandshakeFailed) as error:
        print("not started:", error)
    except (accord.Crashed, accord.Killed) as error:
        print("ended:", error.exit_code, error.signal, error.stderr)
    except accord.ConnectionClosed:
        print("the connection was closed")
    except (accord.RequestTimeout, accord.TurnSilent):
        print("too slow")
    except (accord.NotOffered, accord.UsageError):
        print("a mistake of this program")
    except (accord.BadAnswer, accord.RpcError) as error:
        print("the agent answered with an error:", error)
    except accord.AccordError as error:
        print(error)


async def read_the_state() -> None:
    agent = ScriptedAgent([[say("Hello")]])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session(".")
        await session.ask([accord.TextContent("Hi")])
        state: accord.SessionState = session.state
    assert [message.text for message in state.messages] == ["Hi", "Hello"]


async def cancel_a_turn() -> None:
    async with accord.connect_transport(ScriptedAgent().transport()) as remote:
        session = await remote.new_session(".")
        asking = asyncio.create_task(session.ask("Hello"))
        await asyncio.sleep(0)
        session.cancel()
        await asking


async def serve_your_own_files() -> None:
    def read_only(session: accord.ClientSession) -> accord.Workspace:
        return accord.LocalWorkspace(session.roots)

    handlers = accord.ClientHandlers(workspace=read_only, offer=("read",))
    async with accord.connect_transport(ScriptedAgent().transport(), handlers=handlers) as remote:
        await remote.new_session(".")
