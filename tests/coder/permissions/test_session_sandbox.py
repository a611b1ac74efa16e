"""The sandbox of a session: when it is made, what it says of itself, and that commands of the real tool run in it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scene import Client, agent_that, talk
from tests.coder.permissions.scene import Session, make_session
from tests.coder.tools.scene import Desk

from accord.agent import AgentOptions, Turn
from accord.coder.permissions.confinement import Confinement
from accord.coder.permissions.settings import SandboxSettings
from accord.coder.tools.context import ToolContext
from accord.policy.sandbox import probe
from accord.testing import FakeClock

WORKING = [name for name in ("bubblewrap", "landlock") if probe.probe(name).backend is not None]
sandboxed = pytest.mark.skipif(
    not WORKING,
    reason="the kernel or its settings let no sandbox run here; without one there is nothing to try",
)


@pytest.fixture(params=WORKING)
async def confinement(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Confinement]:
    """One of each kind that works here."""
    (tmp_path / "project").mkdir()
    made = Confinement([str(tmp_path / "project")], SandboxSettings(backend=request.param))
    yield made
    await made.aclose()


def at(session: Session, context: ToolContext) -> Desk:
    """The tools of a session, in this context."""
    desk = Desk(session.root)
    desk.context = context
    return desk


# -- what it says of itself --------------------------------------------------------------------------------------


async def test_nothing_is_claimed_before_it_is_tried(tmp_path: Path) -> None:
    confinement = Confinement([str(tmp_path)])
    assert (confinement.sandbox, confinement.holds, confinement.missing) == (None, False, "")
    assert confinement.lines() == ["sandbox: not tried yet: it is made before the first command"]
    assert confinement.outside("/tmp/x") == "/tmp/x"


async def test_switched_off_there_is_none(tmp_path: Path) -> None:
    confinement = Confinement([str(tmp_path)], SandboxSettings(enabled=False, backend="bubblewrap"))
    confinement.turn_started()
    await confinement.ready()
    assert (confinement.sandbox, confinement.holds, confinement.missing) == (None, False, "")
    assert confinement.summary() == "none: switched off in your config; commands run with all your rights"
    context = await confinement.equip(ToolContext(cwd=str(tmp_path)))
    assert context.sandbox is None
    await confinement.aclose()


async def test_a_folder_that_cannot_be_confined_is_said_and_commands_are_asked_about() -> None:
    confinement = Confinement(["/usr"])
    await confinement.ready()
    assert (confinement.sandbox, confinement.holds, confinement.missing) == (None, False, "")
    assert confinement.summary().startswith(
        "none: commands run with all your rights (a sandbox cannot open /usr"
    )
    await confinement.aclose()


async def test_insisted_on_and_not_there_no_command_runs(tmp_path: Path) -> None:
    confinement = Confinement(["/usr"], SandboxSettings(backend="bubblewrap"))
    assert "it is not ready" in confinement.missing
    await confinement.ready()
    assert confinement.missing.startswith("your config insists on a sandbox that is not there: ")
    assert confinement.summary().startswith("none: no command is run (")
    session = make_session(tmp_path, mode="full-access", walls=confinement)
    assert "insists on a sandbox" in (await session.ruling("bash", command="ls")).told
    await confinement.aclose()


# -- its life ----------------------------------------------------------------------------------------------------


@sandboxed
async def test_it_is_made_once_for_all_who_wait_and_whoever_stops_waiting_stops_nobody(
    confinement: Confinement,
) -> None:
    impatient = asyncio.ensure_future(confinement.ready())
    others = [asyncio.ensure_future(confinement.ready()) for _ in range(3)]
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(*others)
    assert impatient.cancelled()
    first = confinement.sandbox
    assert first is not None
    await confinement.ready()
    assert confinement.sandbox is first
    assert confinement.lines()[0] == f"sandbox: {first.boundary.summary()}"


@sandboxed
async def test_whoever_comes_while_it_is_made_waits_for_it_too(confinement: Confinement) -> None:
    first = asyncio.ensure_future(confinement.ready())
    for _ in range(3):
        await asyncio.sleep(0)  # it is being made, in its thread
    assert confinement.sandbox is None
    await confinement.ready()
    assert confinement.sandbox is not None
    assert not confinement.summary().startswith("not tried yet")
    await first


@sandboxed
async def test_secrets_are_looked_for_again_every_turn(confinement: Confinement, tmp_path: Path) -> None:
    await confinement.ready()
    held = confinement.holds
    (tmp_path / "project" / ".env").write_text("KEY=geheim")
    confinement.turn_started()
    assert (confinement.sandbox, confinement.holds) == (None, False)  # not before it has been looked through
    await confinement.ready()
    assert confinement.sandbox is not None
    assert str(tmp_path / "project" / ".env") in confinement.sandbox.secrets
    assert held is True
    assert confinement.holds is (
        confinement.sandbox.boundary.backend == "bubblewrap"
    )  # Landlock cannot hide what lies in a root


@sandboxed
async def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    confinement = Confinement([str(tmp_path)])
    await confinement.ready()
    assert confinement.sandbox is not None
    private = confinement.sandbox.private.path
    assert os.path.isdir(private)
    await confinement.aclose()
    assert not os.path.exists(private)
    confinement.turn_started()
    await confinement.ready()
    assert (confinement.sandbox, confinement.holds) == (None, False)


@sandboxed
async def test_closed_while_it_is_made(tmp_path: Path) -> None:
    confinement = Confinement([str(tmp_path)])
    waiting = asyncio.ensure_future(confinement.ready())
    await asyncio.sleep(0)
    await confinement.aclose()
    await waiting
    assert confinement.sandbox is None


# -- commands in it ----------------------------------------------------------------------------------------------


@sandboxed
@pytest.mark.parametrize("outside", [False, True])
async def test_commands_do_not_inherit_credentials(
    confinement: Confinement, tmp_path: Path, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "geheim-1")
    monkeypatch.setenv("DATABASE", "postgres://me:geheim-2@host/db")
    session = make_session(tmp_path)
    desk = at(session, await confinement.equip(session.context))
    outcome = await desk.done("bash", command="env; echo ran", outside_sandbox=outside)
    assert "ran" in outcome.text
    assert "geheim" not in outcome.text
    assert {"OPENAI_API_KEY", "DATABASE"} <= set(desk.context.withheld)


@sandboxed
async def test_a_variable_that_the_user_keeps_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "wanted")
    session = make_session(tmp_path)
    confinement = Confinement([str(session.root)], SandboxSettings(keep_env=("MY_TOKEN",)))
    desk = at(session, await confinement.equip(session.context))
    for outside in (False, True):
        outcome = await desk.done("bash", command="echo $MY_TOKEN", outside_sandbox=outside)
        assert outcome.text == "wanted"
    await confinement.aclose()


@sandboxed
async def test_in_workspace_write_a_command_runs_unasked_and_writes_only_in_the_roots(
    confinement: Confinement, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", walls=confinement)
    context = await confinement.equip(session.context)
    session.context = context
    assert confinement.holds
    assert (await session.ruling("bash", command="make && ./configure")).allowed
    # A place outside that is named is asked about; one that is not can still not be written to.
    assert (await session.asks("bash", command="touch ../elsewhere/outside")).rule == "outside"
    hiding = 'touch inside; cd ..; there=elsewhere; sh -c "touch $there/outside"; true'
    await at(session, context).done("bash", command=hiding)
    assert (session.root / "inside").exists()
    assert not (tmp_path / "elsewhere" / "outside").exists()


@sandboxed
async def test_a_commands_own_tmp_is_found_again(confinement: Confinement, tmp_path: Path) -> None:
    session = make_session(tmp_path)
    desk = at(session, await confinement.equip(session.context))
    await desk.done("bash", command="echo kept > $TMPDIR/report")
    temp = (await desk.done("bash", command="echo $TMPDIR")).text
    assert Path(confinement.outside(f"{temp}/report")).read_text() == "kept\n"
    assert confinement.outside(str(session.root / "a")) == str(session.root / "a")


# -- in the client's terminals -----------------------------------------------------------------------------------


async def run_there(client: Client, *, elsewhere: bool = False) -> dict[str, Any]:
    """Serve one terminal of the client, which is on this machine or on another; what was asked for."""
    created = await client.asked("terminal/create")
    asked = created["params"]
    env = {"PATH": os.defpath, "CLIENT_TOKEN": "geheim-3"} | {v["name"]: v["value"] for v in asked["env"]}
    if elsewhere:
        code, output = 2, "sh: cannot open options: No such file"
    else:
        process = await asyncio.create_subprocess_exec(
            asked["command"], *asked["args"], env=env, cwd=asked["cwd"],
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        printed, _ = await process.communicate()
        code, output = process.returncode, printed.decode()
    client.raw.reply(created, {"terminalId": "t"})
    client.raw.reply(await client.asked("terminal/wait_for_exit"), {"exitCode": code, "signal": None})
    client.raw.reply(await client.asked("terminal/output"), {"output": output, "truncated": False})
    client.raw.reply(await client.asked("terminal/release"), {})
    return asked


@sandboxed
async def test_in_terminals_on_this_machine_the_sandbox_is_used(
    confinement: Confinement, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", walls=confinement)
    outcomes: list[str] = []

    async def answer(turn: Turn) -> None:
        for _ in range(2):
            session.context = await confinement.equip(
                ToolContext(cwd=str(session.root), terminal=turn.terminal)
            )
            assert (await session.ruling("bash", command="make all")).allowed
        line = 'touch ../elsewhere/x; sh -c "touch inside"; env'
        outcomes.append((await at(session, session.context).use("bash", command=line)).text)

    async with talk(agent_that(answer), capabilities={"terminal": True}) as client:
        turn = client.prompt(await client.new_session(str(session.root)))
        probed = await run_there(client)
        asked = await run_there(client)  # the probe was not repeated
        await client.turn_of(turn)
    assert probed["cwd"] == asked["cwd"] == str(session.root)
    assert "cat" in probed["args"]
    assert (session.root / "inside").exists()
    assert not (tmp_path / "elsewhere" / "x").exists()
    assert "PATH=" in outcomes[0]
    assert "geheim" not in outcomes[0]
    assert not list(Path(confinement.outside("/tmp")).glob("probe-*"))


@sandboxed
async def test_in_terminals_elsewhere_it_is_not_and_commands_are_asked_about(
    confinement: Confinement, tmp_path: Path
) -> None:
    session = make_session(tmp_path, mode="workspace-write", walls=confinement)
    asked: list[str] = []

    async def answer(turn: Turn) -> None:
        session.context = await confinement.equip(ToolContext(cwd=str(session.root), terminal=turn.terminal))
        asked.append((await session.asks("bash", command="make all")).reason)

    async with talk(agent_that(answer), capabilities={"terminal": True}) as client:
        turn = client.prompt(await client.new_session(str(session.root)))
        await run_there(client, elsewhere=True)
        await client.turn_of(turn)
    assert session.context.sandbox is None
    assert asked == ["`make all` would run without a sandbox"]
    assert any("not used in the client's terminals" in line for line in confinement.lines())


@sandboxed
@pytest.mark.parametrize("silent", [True, False])
async def test_a_client_that_opens_no_terminal_holds_up_nobody(
    confinement: Confinement, tmp_path: Path, silent: bool
) -> None:
    clock = FakeClock()
    found: list[ToolContext] = []

    async def answer(turn: Turn) -> None:
        found.append(
            await confinement.equip(
                ToolContext(cwd=str(tmp_path / "project"), terminal=turn.terminal, clock=clock)
            )
        )

    options = AgentOptions(clock=clock)
    async with talk(agent_that(answer), capabilities={"terminal": True}, options=options) as client:
        turn = client.prompt(await client.new_session(str(tmp_path / "project")))
        created = await client.asked("terminal/create")
        if not silent:
            client.raw.refuse(created, -32603, "no terminals today")
        await clock.advance(10)
        await client.turn_of(turn)
        if silent:
            client.raw.reply(created, {"terminalId": "late"})
            client.raw.reply(await client.asked("terminal/release"), {})
    assert found[0].sandbox is None
