"""Write agents: one function per task."""

import accord
from accord.agent import (
    AgentConnection,
    Client,
    ClientTerminal,
    CommandResult,
    Compaction,
    SessionClient,
    Subagent,
)
from accord.schema import SessionInfo, StopReason
from accord.testing import scripted_client
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Frame, OversizedFrame, Receiver, Transport, TransportEnd


async def answer_a_prompt() -> None:
    agent = accord.Agent("hello", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> StopReason:
        await turn.think("A greeting.")
        await turn.say(f"You said: {turn.text}")
        return "end_turn"

    async with scripted_client(agent) as client:
        assert (await client.prompt("Hello")).text == "You said: Hello"


async def ask_before_an_edit() -> None:
    agent = accord.Agent("editor", version="1.0")

    @agent.prompt
    async def edit(turn: accord.Turn) -> None:
        async with turn.tool_call("Edit a.txt", kind="edit") as call:
            answer: accord.PermissionAnswer = await call.ask_permission()
            await turn.say("allowed" if answer else f"not allowed: {answer.reason}")

    async with scripted_client(agent, permissions=["reject_once"]) as client:
        assert (await client.prompt("edit")).text == "not allowed: selected"


async def report_a_tool_call() -> None:
    agent = accord.Agent("reporter", version="1.0")

    async def work(call: accord.ToolCallScope) -> None:
        await call.text("3 files")
        await call.raw_output({"files": 3})

    @agent.prompt
    async def search(turn: accord.Turn) -> None:
        async with turn.tool_call("Search", kind="search") as call:
            await work(call)

    async with scripted_client(agent) as client:
        assert (await client.prompt("search")).tool_calls[0].text == "3 files"


async def run_a_command_in_the_client() -> None:
    agent = accord.Agent("tester", version="1.0")

    @agent.prompt
    async def test(turn: accord.Turn) -> None:
        result: CommandResult = await turn.run("echo", ["2 passed"], timeout=60)
        await turn.say(result.output if result.exit_code == 0 else "failed")

    async with scripted_client(agent) as client:
        assert (await client.prompt("test")).text == "2 passed\n"


async def show_a_terminal_in_a_tool_call() -> None:
    agent = accord.Agent("tester", version="1.0")

    async def last_line(terminal: ClientTerminal) -> str:
        await terminal.wait()
        return (await terminal.output()).output.splitlines()[-1]

    @agent.prompt
    async def test(turn: accord.Turn) -> None:
        async with (
            turn.tool_call("Run the tests", kind="execute") as call,
            turn.terminal("echo", ["2 passed"]) as terminal,
        ):
            await call.terminal(terminal)
            await turn.say(await last_line(terminal))

    async with scripted_client(agent) as client:
        assert (await client.prompt("test")).text == "2 passed"


async def show_a_compaction_of_the_context() -> None:
    agent = accord.Agent("compactor", version="1.0")

    @agent.prompt
    async def compact(turn: accord.Turn) -> None:
        compaction: Compaction = turn.compaction()
        async with compaction:
            await compaction.summary("We fixed the parser.")

    async with scripted_client(agent) as client:
        assert (await client.prompt("/compact")).stop_reason == "end_turn"


async def show_a_child_session() -> None:
    agent = accord.Agent("leader", version="1.0")

    @agent.prompt
    async def delegate(turn: accord.Turn) -> None:
        child: Subagent = turn.subagent("Search the docs")
        await child.add_message("Where is the parser?")
        await child.set_idle()

    async with scripted_client(agent) as client:
        assert (await client.prompt("go")).stop_reason == "end_turn"


async def keep_data_in_a_session() -> None:
    agent = accord.Agent("counter", version="1.0")

    @agent.new_session
    async def begin(session: accord.AgentSession) -> None:
        session.data = 0

    @agent.prompt
    async def count(turn: accord.Turn) -> None:
        turn.session.data += 1
        await turn.say(str(turn.session.data))

    async with scripted_client(agent) as client:
        assert [(await client.prompt("next")).text for _ in range(2)] == ["1", "2"]


async def list_and_load_sessions() -> None:
    agent = accord.Agent("archive", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say("ok")

    @agent.load_session
    async def load(session: accord.AgentSession) -> None:
        raise accord.unknown_session(session.id)

    @agent.list_sessions
    async def stored(request: object, call: accord.ClientRequest) -> list[SessionInfo]:
        return [SessionInfo("s1", "/project")]

    async with scripted_client(agent) as client:
        assert [info.session_id async for info in client.agent.list_sessions()] == ["s1"]


async def say_what_the_agent_accepts() -> None:
    features = accord.AgentFeatures(image=True, embedded_context=True)
    options = accord.AgentOptions(strict=True)
    agent = accord.Agent("seeing", version="1.0", accepts=features, options=options)

    @agent.prompt
    async def look(turn: accord.Turn) -> None:
        await turn.say(f"{len(turn.blocks)} blocks")

    async with scripted_client(agent) as client:
        capabilities = client.agent.capabilities.prompt_capabilities
        assert capabilities and capabilities.image


async def use_the_files_of_the_client() -> None:
    agent = accord.Agent("reader", version="1.0")

    @agent.prompt
    async def read(turn: accord.Turn) -> None:
        client: SessionClient = turn.client
        await turn.say("can read" if client.can_read_files else "cannot read")

    async with scripted_client(agent, workspace=None) as client:
        assert (await client.prompt("read")).text == "cannot read"


async def serve_two_sides_in_one_program() -> None:
    agent = accord.Agent("inside", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(turn.text)

    ours, theirs = memory_pair()
    connection: AgentConnection = agent.connect(ours)
    async with accord.connect_transport(theirs) as remote:
        assert remote.name == "inside"
    await connection.aclose()


async def know_the_client() -> None:
    agent = accord.Agent("polite", version="1.0")

    def name_of(client: Client) -> str:
        return client.info.name if client.info else "unknown"

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(f"Hello, {name_of(turn.client)}")

    async with scripted_client(agent) as client:
        assert (await client.prompt("Hi")).text == "Hello, accord"


async def receive_the_frames_of_a_transport() -> None:
    received: list[bytes | str] = []

    class Collector:
        def frames(self, frames: list[Frame]) -> None:
            received.extend(frame.head if isinstance(frame, OversizedFrame) else frame for frame in frames)

        def ended(self, end: TransportEnd) -> None:
            received.append(end.reason)

    receiver: Receiver = Collector()
    ours, theirs = memory_pair()
    transport: Transport = ours
    transport.start(receiver)
    theirs.start(Collector())
    theirs.send(b'{"jsonrpc": "2.0", "method": "hello"}')
    await theirs.aclose()
    await transport.aclose()
    assert received[0] == b'{"jsonrpc": "2.0", "method": "hello"}'
