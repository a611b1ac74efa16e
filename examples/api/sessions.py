"""Session events, state, the store, files and terminals, and traces."""

from pathlib import Path

import accord
import accord.testing
from accord.schema import PlanItems, RunningStateUpdate, SessionUpdate, ToolCallUpdate
from accord.session import (
    BackgroundItem,
    CompactionState,
    Entry,
    Event,
    GrowingContent,
    History,
    Mark,
    Message,
    MessageChunk,
    MessageKind,
    ModeChanged,
    Picker,
    PickerChoice,
    PickerSource,
    PlanBody,
    PlanState,
    ReplayEnded,
    ReplayStarted,
    SessionEvent,
    SessionMessageState,
    SessionOpened,
    SessionSettings,
    StateChanged,
    SubagentState,
    TerminalChanged,
    TerminalExit,
    TerminalState,
    ToolCallState,
    TurnCancelling,
    TurnStatus,
    text_of,
    turn_ended,
    turn_failed,
)
from accord.store import (
    EVENT,
    INTERRUPTED,
    SESSION,
    CommitTransport,
    ForkParent,
    Journal,
    Lease,
    LogRecord,
    MemoryStore,
    ResumedSession,
    SessionPage,
    SessionSummary,
    SharedMemory,
    Store,
    iso_time,
    open_store,
    repair,
    store_path,
    unfinished,
)
from accord.trace import (
    FrameRing,
    FrameSink,
    RingEntry,
    TappedTransport,
    TraceEntry,
    TraceStart,
    record_to_file,
)
from accord.wire.memory_transport import MemoryTransport, memory_pair
from accord.wire.stdio import StdioTransport
from accord.workspace import (
    EditorBuffers,
    ExitStatus,
    OutsideRoots,
    PtySize,
    Roots,
    TerminalCommand,
    TerminalOutput,
    Terminals,
    TextFiles,
)


async def apply_events() -> None:
    state = accord.SessionState("s1", "/project")
    events: list[Event] = [
        accord.TurnStarted([accord.TextContent("Hi")]),
        accord.AgentMessageChunk(accord.TextContent("Hello"), "m1"),
        turn_ended("end_turn"),
    ]
    for event in events:
        state.apply(event)
    status: TurnStatus = state.turn
    assert status == "idle"
    assert text_of(events[1]) == state.messages[-1].text == "Hello"


async def end_a_turn_with_an_error() -> None:
    state = accord.SessionState()
    for event in (accord.TurnStarted(), TurnCancelling(), turn_failed(accord.UsageError("no"))):
        state.apply(event)
    assert state.turn == "idle"


async def replay_a_session() -> None:
    state = accord.SessionState("s1", "/project")
    chunk: MessageChunk = accord.UserMessageChunk(accord.TextContent("Hi"), "m1")
    for event in (SessionOpened("s1"), ReplayStarted(), chunk, ReplayEnded(), ModeChanged("plan")):
        assert isinstance(event, SessionEvent) or event is chunk
        state.apply(event)
    assert [message.text for message in state.messages] == ["Hi"]


async def send_a_stored_session() -> None:
    state = accord.SessionState("s1", "/project")
    state.apply(accord.TurnStarted([accord.TextContent("Hi")]))
    updates: list[SessionUpdate] = list(state.updates())  # for `await session.replay(updates)` in an agent
    assert [text_of(update) for update in updates] == ["Hi"]


def describe(entry: Entry) -> str:
    """Return a line for an entry of the timeline."""
    match entry:
        case Message(kind=kind):
            who: MessageKind = kind
            return f"{who}: {entry.text}"
        case ToolCallState(mark=mark):
            ended: Mark = mark
            return f"tool: {entry.label} {ended}".rstrip()
        case PlanState(body=body):
            plan: PlanBody = body
            return f"plan: {text_of(plan)}"
        case CompactionState():
            return "compacted"
        case SubagentState(title=title):
            return f"subagent: {title}"
        case SessionMessageState(message_id=id):
            return f"message {id}"


async def read_the_timeline() -> None:
    entries: list[Entry] = [
        Message("user", "m1", [accord.TextContent("Hi")]),
        ToolCallState("t1", "Read a.py"),
        PlanState("p1", PlanItems("p1", [])),
        CompactionState("c1"),
        SubagentState("s2", "helper", state=RunningStateUpdate()),
        SessionMessageState("x1"),
    ]
    assert [describe(entry) for entry in entries][:2] == ["user: Hi", "tool: Read a.py"]


async def grow_a_message() -> None:
    content = GrowingContent()
    for word in ("Hello", ", ", "world"):
        content.append(accord.TextContent(word))
    assert (content.text, len(content.blocks)) == ("Hello, world", 1)


async def keep_a_history() -> None:
    state = accord.SessionState()
    state.apply(accord.ToolCallChanged(ToolCallUpdate("t1", title="Read a.py")))
    history: History = state.history
    assert [call.title for call in history.tool_calls.values()] == ["Read a.py"]


async def show_the_settings() -> None:
    settings = SessionSettings()
    source: PickerSource = "modes"
    picker = Picker(source, "mode", "Mode", "ask", (PickerChoice("ask", "Ask first"),))
    assert settings.pickers == [] and picker.choices[0].name == "Ask first"


async def show_a_terminal_of_the_agent() -> None:
    state = accord.SessionState("s")
    state.apply(TerminalChanged("t1", "make", append="b2sK", exit=TerminalExit(exit_code=0)))
    state.apply(StateChanged("idle", [BackgroundItem("terminal", "t2")]))
    terminal: TerminalState = state.terminals["t1"]
    assert (terminal.text, terminal.exit) == ("ok\n", TerminalExit(exit_code=0))
    assert (state.activity, len(state.background)) == ("idle", 1)


async def store_a_session() -> None:
    store: Store = MemoryStore(SharedMemory())
    store.create("s1", "/project")
    journal: Journal = store.journal("s1")
    journal.append(accord.TurnStarted([accord.TextContent("Hi")]))
    journal.close()
    resumed: ResumedSession = repair(store.events("s1"))
    assert [type(event).__name__ for event in resumed.closing] == ["TurnEnded"]
    assert INTERRUPTED in str(resumed.closing) and unfinished(resumed.state) == []


async def list_stored_sessions() -> None:
    store = open_store("sessions.db")
    store.create("s1", "/project")
    with store.journal("s1") as journal:
        journal.append(accord.TurnStarted([accord.TextContent("Hi")]))
        lease: Lease | None = store.writer("s1")
        assert lease is not None and lease.ours
    page: SessionPage = store.list("/project", limit=20)
    summary: SessionSummary = page.sessions[0]
    assert iso_time(summary.updated).startswith("20")
    store.close()


async def fork_a_stored_session() -> None:
    store = MemoryStore()
    store.create("s1", "/project")
    with store.journal("s1") as journal:
        journal.append(accord.TurnStarted())
    store.fork("s1", "s2")
    parent = store.summary("s2").parent
    assert parent is not None and parent == ForkParent("s1", parent.seq)


async def read_the_log() -> None:
    store = MemoryStore()
    store.create("s1", "/project")
    with store.journal("s1") as journal:
        journal.append(accord.TurnStarted())
    records: list[LogRecord] = list(store.read("s1"))
    assert {record.kind for record in records} <= {EVENT, SESSION}
    assert store_path().name.startswith("sessions")


async def send_after_the_commit() -> None:
    transport = CommitTransport(StdioTransport(), MemoryStore())
    assert transport.unsent == 0


async def keep_the_last_messages() -> None:
    ring: FrameRing = FrameRing(1000)
    sink: FrameSink = ring
    ours, _ = memory_pair()
    end: MemoryTransport = ours
    tapped = TappedTransport(end, sink, ours="client")
    entries: list[RingEntry] = ring.entries
    traced: list[TraceEntry] = ring.trace_entries()
    assert not entries and not traced and tapped.unsent == 0


async def record_a_trace() -> None:
    agent = accord.testing.ScriptedAgent()
    transport = record_to_file(agent.transport(), "session.jsonl", ours="client")
    async with accord.connect_transport(transport) as remote:
        await remote.new_session(".")
    start = TraceStart(accord_trace=1, run="r1", started="2026-01-01T00:00:00Z")
    assert Path("session.jsonl").exists() and start.redacted


class OpenFiles:
    """The unsaved texts of an editor."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def read(self, path: Path) -> str | None:
        return self.texts.get(path.name)

    def write(self, path: Path, text: str) -> bool:
        if path.name not in self.texts:
            return False
        self.texts[path.name] = text
        return True


async def serve_unsaved_text() -> None:
    buffers: EditorBuffers = OpenFiles({"a.txt": "unsaved"})
    roots = Roots(Path.cwd())
    workspace = accord.LocalWorkspace(roots, files=TextFiles(roots, buffers=buffers))
    assert await workspace.read_text_file(str(Path("a.txt").resolve())) == "unsaved"
    await workspace.aclose()


async def refuse_other_folders() -> None:
    try:
        Roots(Path.cwd()).resolve("/etc/passwd")
    except OutsideRoots as error:
        assert "passwd" in str(error)


async def run_a_command() -> None:
    terminals = Terminals(Roots(Path.cwd()), pty=PtySize(columns=100))
    terminal = await terminals.create(TerminalCommand("echo", args=["hello"]))
    status: ExitStatus = await terminals.wait(terminal)
    output: TerminalOutput = terminals.output(terminal)
    assert status.exit_code == 0 and "hello" in output.output
    await terminals.aclose()


async def follow_an_update() -> None:
    update: SessionUpdate = accord.AgentMessageChunk(accord.TextContent("Hi"), "m1")
    assert text_of(update) == "Hi"
