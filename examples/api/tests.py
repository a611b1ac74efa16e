"""The test kit."""

import asyncio
from pathlib import Path

import accord
from accord.testing import (
    AccordClientFixture,
    AccordModelServerFixture,
    AccordWireFixture,
    AgentScript,
    FakeClock,
    ModelServer,
    RawPeer,
    RecordedTurn,
    RecordingTransport,
    ScriptedAgent,
    ScriptedClient,
    ScriptedTurn,
    Step,
    WireFault,
    WireLog,
    ask,
    die,
    fail,
    hostile_command,
    parse_step,
    plan,
    raw_pair,
    read_file,
    say,
    scripted_client,
    send,
    settle,
    stop,
    terminal,
    think,
    tool,
    update,
    wait_for_cancel,
    write_file,
)
from accord.testing.model_server import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    RawBytes,
    RecordedRequest,
    Refusal,
    Reply,
    ScriptedUsage,
    StreamPause,
    Thought,
)


async def test_an_agent() -> None:
    agent = accord.Agent("hello", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(turn.text)

    connect: AccordClientFixture = scripted_client
    async with connect(agent, permissions=["allow_once"]) as client:
        connected: ScriptedClient = client
        turn: RecordedTurn = await connected.prompt("Hello")
        wire: WireLog = client.wire
    assert turn.text == "Hello" and wire.methods("agent")[-1] == "session/update"


async def test_a_client() -> None:
    async def shout(turn: ScriptedTurn) -> None:
        await turn.say("HELLO")

    own_step: Step = shout
    script = AgentScript(Path("."))
    agent: ScriptedAgent = script(think("hm"), plan("Look"), tool("Edit", ask(), kind="edit"))
    other = script(say("Hi"), own_step, stop("end_turn"))
    for scripted in (agent, other):
        async with accord.connect_transport(scripted.transport()) as remote:
            await (await remote.new_session(".")).ask("go")
    assert agent.outcomes == [False]


async def script_every_step() -> None:
    update_json = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}}
    steps: list[Step] = [
        read_file("a.txt"),
        write_file("a.txt", "text"),
        terminal("echo", "hello"),
        update(update_json),
        send("a line that is no message"),
        wait_for_cancel(),
        fail(-32603, "no"),
        die(7),
        parse_step({"say": "Hello"}),
    ]
    assert all(callable(step) for step in steps)


async def send_single_messages() -> None:
    pair: AccordWireFixture = raw_pair
    transport, peer = pair(validate="agent")
    agent = accord.Agent("hello", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(turn.text)

    connection = agent.connect(transport)
    other_end: RawPeer = peer
    result = await other_end.call("initialize", {"protocolVersion": 1})
    assert result["protocolVersion"] == 1
    await connection.aclose()


async def find_an_invalid_message() -> None:
    log = WireLog()
    log.add("agent", b'{"jsonrpc": "2.0", "method": "no/such/method", "params": {}}')
    try:
        log.assert_valid("agent")
    except WireFault as fault:
        assert "no/such/method" in str(fault)


async def record_a_transport() -> None:
    recording = RecordingTransport(ScriptedAgent().transport(), side="client")
    async with accord.connect_transport(recording) as remote:
        await remote.new_session(".")
    assert recording.log.methods("client")[:2] == ["initialize", "session/new"]


async def move_the_clock() -> None:
    clock = FakeClock()
    agent = ScriptedAgent([[wait_for_cancel()]])
    options = accord.ClientOptions(clock=clock, limits=accord.TimeLimits(silence=60))
    async with accord.connect_transport(agent.transport(), options=options) as remote:
        session = await remote.new_session(".")
        asking = asyncio.create_task(session.ask("Hello"))
        await settle()
        await clock.advance(70)
        try:
            await asking
        except accord.TurnSilent as error:
            assert str(error)


async def start_a_misbehaving_agent() -> None:
    try:
        async with accord.connect(*hostile_command("dies-at-start")):
            pass
    except accord.HandshakeFailed as error:
        assert error.exit_code == 7


async def script_a_model_provider() -> None:
    kind: AccordModelServerFixture = ModelServer
    answers: list[Reply] = [
        ModelFault(429, "slow down", retry_after=1),
        ModelAnswer(Thought("hm"), "Hello", ModelToolCall("read_file", {}), usage=ScriptedUsage(9, 4)),
        ModelAnswer(Refusal("no")),
        ModelAnswer(RawBytes(b"broken"), StreamPause(), DroppedConnection()),
    ]
    server = kind(answers)
    requests: list[RecordedRequest] = server.requests
    assert requests == []
