"""The sandbox of a session: when it is created, what it reports, and that real commands run in it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.coder.permissions.harness import GateSession, make_session
from tests.coder.tools.harness import ToolHarness, serve_terminal

from accord.agent import AgentOptions, Turn
from accord.coder.permissions.permission_settings import SandboxSettings
from accord.coder.permissions.session_sandbox import SessionSandbox
from accord.coder.tools.client_terminals import CHECK, ClientTerminals
from accord.coder.tools.tool_context import ToolContext
from accord.policy.sandbox import sandbox
from accord.testing import FakeClock

WORKING = [name for name in ("bubblewrap", "landlock") if sandbox.probe(name).backend is not None]
needs_sandbox = pytest.mark.skipif(
    not WORKING,
    reason="no sandbox works with this kernel and its settings",
)


@pytest.fixture(params=WORKING)
async def session_sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionSandbox]:
    """Create a confinement for each backend that works here."""
    (tmp_path / "project").mkdir()
    made = SessionSandbox([str(tmp_path / "project")], SandboxSettings(backend=request.param))
    yield made
    await made.aclose()


def tools_in(session: GateSession, context: ToolContext) -> ToolHarness:
    """Return the tools of a session in this context."""
    harness = ToolHarness(session.root)
    harness.context = context
    return harness


def assert_no_sandbox(session_sandbox: SessionSandbox) -> None:
    """Assert that there is no sandbox, and that none is required."""
    assert session_sandbox.sandbox is None
    assert not session_sandbox.is_effective
    assert session_sandbox.unavailable_reason == ""


# -- status --------------------------------------------------------------------------------------------------


async def test_status_before_the_first_command_is_not_tried(tmp_path: Path) -> None:
    session_sandbox = SessionSandbox([str(tmp_path)])
    assert_no_sandbox(session_sandbox)
    assert session_sandbox.details() == ["sandbox: not tried yet: it is created before the first command"]
    assert session_sandbox.host_path("/tmp/x") == "/tmp/x"


async def test_disabled_sandbox_is_reported(tmp_path: Path) -> None:
    session_sandbox = SessionSandbox([str(tmp_path)], SandboxSettings(enabled=False, backend="bubblewrap"))
    session_sandbox.turn_started()
    await session_sandbox.ensure_ready()
    assert_no_sandbox(session_sandbox)
    assert session_sandbox.summary() == "none: switched off in your config; commands run with all your rights"
    context = await session_sandbox.add_to_context(ToolContext(cwd=str(tmp_path)))
    assert context.sandbox is None
    await session_sandbox.aclose()


async def test_folder_that_cannot_be_confined_is_reported() -> None:
    session_sandbox = SessionSandbox(["/usr"])
    await session_sandbox.ensure_ready()
    assert_no_sandbox(session_sandbox)
    assert session_sandbox.summary().startswith(
        "none: commands run with all your rights (a sandbox cannot open /usr"
    )
    await session_sandbox.aclose()


async def test_missing_required_sandbox_blocks_commands(tmp_path: Path) -> None:
    session_sandbox = SessionSandbox(["/usr"], SandboxSettings(backend="bubblewrap"))
    assert "it is not ready" in session_sandbox.unavailable_reason
    await session_sandbox.ensure_ready()
    assert session_sandbox.unavailable_reason.startswith(
        "your config requires a sandbox that is not available: "
    )
    assert session_sandbox.summary().startswith("none: no command is run (")
    session = make_session(tmp_path, mode="full-access", session_sandbox=session_sandbox)
    assert "requires a sandbox" in (await session.ruling("bash", command="ls")).message
    await session_sandbox.aclose()


# -- lifecycle -----------------------------------------------------------------------------------------------


@needs_sandbox
async def test_sandbox_is_created_once_and_a_cancelled_wait_does_not_stop_it(
    session_sandbox: SessionSandbox,
) -> None:
    impatient = asyncio.ensure_future(session_sandbox.ensure_ready())
    others = [asyncio.ensure_future(session_sandbox.ensure_ready()) for _ in range(3)]
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(*others)
    assert impatient.cancelled()
    first = session_sandbox.sandbox
    assert first is not None
    await session_sandbox.ensure_ready()
    assert session_sandbox.sandbox is first
    assert session_sandbox.details()[0] == f"sandbox: {first.report.summary()}"


@needs_sandbox
async def test_second_caller_waits_for_the_creation(session_sandbox: SessionSandbox) -> None:
    first = asyncio.ensure_future(session_sandbox.ensure_ready())
    for _ in range(3):
        await asyncio.sleep(0)  # a thread is creating it
    assert session_sandbox.sandbox is None
    await session_sandbox.ensure_ready()
    assert session_sandbox.sandbox is not None
    assert not session_sandbox.summary().startswith("not tried yet")
    await first


@needs_sandbox
async def test_secrets_are_searched_again_every_turn(session_sandbox: SessionSandbox, tmp_path: Path) -> None:
    await session_sandbox.ensure_ready()
    was_effective = session_sandbox.is_effective
    (tmp_path / "project" / ".env").write_text("KEY=geheim")
    session_sandbox.turn_started()
    # The search has to finish first.
    assert (session_sandbox.sandbox, session_sandbox.is_effective) == (None, False)
    await session_sandbox.ensure_ready()
    assert session_sandbox.sandbox is not None
    assert str(tmp_path / "project" / ".env") in session_sandbox.sandbox.secrets
    assert was_effective is True
    # Landlock cannot hide files inside a root.
    assert session_sandbox.is_effective is (session_sandbox.sandbox.report.backend == "bubblewrap")


@needs_sandbox
async def test_closing_removes_the_private_folder(tmp_path: Path) -> None:
    session_sandbox = SessionSandbox([str(tmp_path)])
    await session_sandbox.ensure_ready()
    assert session_sandbox.sandbox is not None
    private = session_sandbox.sandbox.private.path
    assert os.path.isdir(private)
    await session_sandbox.aclose()
    assert not os.path.exists(private)
    session_sandbox.turn_started()
    await session_sandbox.ensure_ready()
    assert (session_sandbox.sandbox, session_sandbox.is_effective) == (None, False)


@needs_sandbox
async def test_close_during_creation(tmp_path: Path) -> None:
    session_sandbox = SessionSandbox([str(tmp_path)])
    waiting = asyncio.ensure_future(session_sandbox.ensure_ready())
    await asyncio.sleep(0)
    await session_sandbox.aclose()
    await waiting
    assert session_sandbox.sandbox is None


# -- commands ------------------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.parametrize("outside", [False, True])
async def test_commands_do_not_inherit_credentials(
    session_sandbox: SessionSandbox, tmp_path: Path, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "geheim-1")
    monkeypatch.setenv("DATABASE", "postgres://me:geheim-2@host/db")
    session = make_session(tmp_path)
    harness = tools_in(session, await session_sandbox.add_to_context(session.context))
    outcome = await harness.done("bash", command="env; echo ran", outside_sandbox=outside)
    assert "ran" in outcome.text
    assert "geheim" not in outcome.text
    assert {"OPENAI_API_KEY", "DATABASE"} <= set(harness.context.hidden_variables)


@needs_sandbox
async def test_variable_in_keep_env_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "wanted")
    session = make_session(tmp_path)
    session_sandbox = SessionSandbox([str(session.root)], SandboxSettings(keep_env=("MY_TOKEN",)))
    harness = tools_in(session, await session_sandbox.add_to_context(session.context))
    for outside in (False, True):
        outcome = await harness.done("bash", command="echo $MY_TOKEN", outside_sandbox=outside)
        assert outcome.text == "wanted"
    await session_sandbox.aclose()


@needs_sandbox
async def test_workspace_write_command_runs_without_asking_and_writes_only_in_roots(
    session_sandbox: SessionSandbox, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", session_sandbox=session_sandbox)
    context = await session_sandbox.add_to_context(session.context)
    session.context = context
    assert session_sandbox.is_effective
    assert (await session.ruling("bash", command="make && ./configure")).allowed
    # A command that names a path outside needs permission; one that hides the path still cannot write to it.
    assert (await session.asked_decision("bash", command="touch ../elsewhere/outside")).rule == "outside"
    hiding = 'touch inside; cd ..; there=elsewhere; sh -c "touch $there/outside"; true'
    await tools_in(session, context).done("bash", command=hiding)
    assert (session.root / "inside").exists()
    assert not (tmp_path / "elsewhere" / "outside").exists()


@needs_sandbox
async def test_private_temp_file_is_found_from_outside(
    session_sandbox: SessionSandbox, tmp_path: Path
) -> None:
    session = make_session(tmp_path)
    harness = tools_in(session, await session_sandbox.add_to_context(session.context))
    await harness.done("bash", command="echo kept > $TMPDIR/report")
    temp = (await harness.done("bash", command="echo $TMPDIR")).text
    assert Path(session_sandbox.host_path(f"{temp}/report")).read_text() == "kept\n"
    assert session_sandbox.host_path(str(session.root / "a")) == str(session.root / "a")


# -- client terminals ----------------------------------------------------------------------------------------


@needs_sandbox
async def test_sandbox_is_used_in_client_terminals_on_this_machine(
    session_sandbox: SessionSandbox, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", session_sandbox=session_sandbox)
    outcomes: list[str] = []

    async def answer(turn: Turn) -> None:
        for _ in range(2):
            session.context = await session_sandbox.add_to_context(
                ToolContext(cwd=str(session.root), terminal=turn.terminal)
            )
            assert (await session.ruling("bash", command="make all")).allowed
        line = 'touch ../elsewhere/x; sh -c "touch inside"; env'
        outcomes.append((await tools_in(session, session.context).use("bash", command=line)).text)

    async with connected_client(make_agent(answer), capabilities={"terminal": True}) as client:
        turn = client.prompt(await client.new_session(str(session.root)))
        checked = await serve_terminal(client)
        asked = await serve_terminal(client)
        await client.turn_of(turn)
    assert checked["cwd"] == asked["cwd"] == str(session.root)
    assert checked["args"] == ["-c", ":", CHECK]
    assert (session.root / "inside").exists()
    assert not (tmp_path / "elsewhere" / "x").exists()
    assert "PATH=" in outcomes[0]
    assert "geheim" not in outcomes[0]


@needs_sandbox
async def test_commands_for_a_client_on_another_machine_run_in_the_sandbox_of_this_one(
    session_sandbox: SessionSandbox, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", session_sandbox=session_sandbox)
    outcomes: list[str] = []
    reasons: list[str] = []

    async def tell(reason: str) -> None:
        reasons.append(reason)

    async def answer(turn: Turn) -> None:
        terminals = ClientTerminals((str(session.root),), tell)
        session.context = await session_sandbox.add_to_context(
            ToolContext(cwd=str(session.root), terminal=turn.terminal, terminals=terminals)
        )
        for line in ("d=..; touch $d/elsewhere/x; touch inside; true", "echo again"):
            assert (await session.ruling("bash", command=line)).allowed
            outcomes.append((await tools_in(session, session.context).use("bash", command=line)).text)
        await terminals.aclose()

    async with connected_client(make_agent(answer), capabilities={"terminal": True}) as client:
        turn = client.prompt(await client.new_session(str(session.root)))
        await serve_terminal(client, elsewhere=True)
        await client.turn_of(turn)
    assert (session.root / "inside").exists()
    assert not (tmp_path / "elsewhere" / "x").exists()
    assert outcomes[1] == "again"
    assert reasons == ["they did not run a test command as it was sent"]


@pytest.mark.parametrize("line", ["pwd", "pwd; true"])
async def test_client_that_opens_no_terminal_does_not_block(tmp_path: Path, line: str) -> None:
    """A line that was sent to the client is not run a second time; later ones run on this machine."""
    clock = FakeClock()
    outcomes: list[str] = []
    (tmp_path / "project").mkdir()

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(tmp_path / "project", terminal=turn.terminal, clock=clock)
        outcomes.extend([(await harness.use("bash", command=it)).text for it in (line, "echo later")])
        await harness.context.terminals.aclose()

    options = AgentOptions(clock=clock)
    async with connected_client(
        make_agent(answer), capabilities={"terminal": True}, options=options
    ) as client:
        turn = client.prompt(await client.new_session(str(tmp_path / "project")))
        created = await client.asked("terminal/create")
        await clock.advance(120)
        await client.turn_of(turn)
        client.raw.reply(created, {"terminalId": "late"})
        client.raw.reply(await client.asked("terminal/release"), {})
    first = "The client opened no terminal within 120 s" if line == "pwd" else str(tmp_path / "project")
    assert outcomes[0].startswith(first)
    assert outcomes[1] == "later"
