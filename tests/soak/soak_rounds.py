"""The rounds of a soak run: each starts real programs, does one kind of damage, and checks what follows."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.patience import PATIENCE
from tests.soak.soak_clients import (
    AgentClient,
    Gateway,
    GatewayClient,
    Gone,
    Message,
    Refused,
    RunClient,
    kill,
    remember_update,
)
from tests.soak.soak_world import Acknowledged, Lost, SoakWorld, descendants, require

PROMPTS = (
    "think: so much to do then list then plan: one; two",
    "read a.py and list src and search beta",
    "write notes.txt: hello then read notes.txt then replace hello with bye in notes.txt",
    "plan: look; change then write deep/er/x.txt: {number} then list deep",
    "run touch made-{number}.txt; echo made then read a.py",
    "delegate: list src then think: done",
    "read big.txt",
    "What is this?",
)
GO_ON = "think: I go on"
_FAKE_CLOCK = Path(__file__).parent / "fake_clock"
_MOST_MESSAGES = 45


def _prompt(world: SoakWorld) -> str:
    return world.random.choice(PROMPTS).format(number=world.random.randrange(1000))


def _open(client: AgentClient, world: SoakWorld) -> str:
    """Open a new session, or load one of an earlier round."""
    client.initialize()
    earlier = world.sessions(client.store)[-20:]
    if earlier and world.random.random() < 0.5:
        session = world.random.choice(earlier)
        client.load(session)
        return session
    return client.new_session()


def _check_resumable(world: SoakWorld, session: str) -> None:
    """A new agent loads the session and answers a prompt in it."""
    client = AgentClient(world)
    client.initialize()
    client.load(session)
    require(client.prompt(session, GO_ON) == "end_turn", f"session {session} does not go on")
    client.close()


def _turns(client: AgentClient | GatewayClient, world: SoakWorld, session: str, count: int) -> None:
    for _ in range(count):
        require(client.prompt(session, _prompt(world)) == "end_turn", "a turn did not end normally")


# -- killed programs -----------------------------------------------------------------------------------------


def kill_agent(world: SoakWorld) -> None:
    """The agent is killed. A new one goes on in the same session."""
    client = AgentClient(world)
    early = world.random.random() < 0.25
    session = None
    try:
        if early:
            client.act_after(world.random.randrange(8), client.kill)
        session = _open(client, world)
        if not early:
            client.act_after(world.random.randrange(_MOST_MESSAGES), client.kill)
        _turns(client, world, session, 20)
        client.kill()
    except Gone:
        pass
    client.close(-signal.SIGKILL)
    if session is not None:
        _check_resumable(world, session)


def kill_client(world: SoakWorld) -> None:
    """`accord run` is killed. Its agent and commands end too, and the session goes on."""
    run = RunClient(world, _prompt(world))
    run.read(world.random.randrange(25))
    run.process.kill()
    run.read()
    world.wait(run.process, (-signal.SIGKILL, 0))
    if run.session is not None and run.session in world.sessions(world.agent_store):
        again = RunClient(world, "--session", run.session, GO_ON)
        again.read()
        world.wait(again.process, (0,))
        require(again.last.get("stopReason") == "end_turn", f"the session does not go on: {again.last}")


def kill_watcher(world: SoakWorld) -> None:
    """The watcher that ends orphans is killed. The turn is not disturbed."""
    run = RunClient(world, "list then run echo made then read a.py then run sleep 0.1 then list src")
    run.read(world.random.randrange(1, 15))
    for pid, command in descendants(run.process.pid).items():
        if "accord-watchdog" in command:
            kill(pid)
    run.read()
    world.wait(run.process, (0,))
    require(run.last.get("stopReason") == "end_turn", f"the turn did not end normally: {run.last}")


def kill_mcp_server(world: SoakWorld) -> None:
    """An MCP server of the session is killed. The turns go on."""
    client = AgentClient(world)
    client.initialize()
    arguments = ["-m", "accord.check.mcp_server_program", str(world.folder / "mcp.log")]
    server = {"name": "soak", "command": sys.executable, "args": arguments, "env": []}
    session = client.new_session(mcpServers=[server])

    def kill_server() -> None:
        for pid, command in descendants(client.process.pid).items():
            if "mcp_server_program" in command:
                kill(pid)

    client.act_after(world.random.randrange(_MOST_MESSAGES), kill_server)
    _turns(client, world, session, 3)
    client.close()


def kill_command(world: SoakWorld) -> None:
    """The command of a tool call is killed. The turn goes on with its result."""
    client = AgentClient(world)
    client.initialize()
    session = client.new_session()
    seconds = f"{world.random.randrange(3000, 4000)}.{world.random.randrange(1000)}"

    def kill_one() -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            below = descendants(client.process.pid)
            if pids := [pid for pid, command in below.items() if f"sleep {seconds}" in command]:
                kill(pids[-1])
                return
            time.sleep(0.01)
        raise Lost("the command was not started")

    def remember(told: Acknowledged, message: Message) -> None:
        remember_update(told, message)
        if message["params"]["update"].get("status") == "in_progress":
            client.act_after(0, kill_one)

    client.remember = remember
    stop = client.prompt(session, f"run sleep {seconds}")
    require(stop == "end_turn", f"the turn ended with {stop}")
    client.close()


def kill_gateway(world: SoakWorld) -> None:
    """The gateway is killed. Another one serves its sessions."""
    gateway = Gateway(world)
    client = GatewayClient(world, gateway, world.gateway_store)
    session = None
    try:
        client.initialize()
        session = client.new_session()
        client.act_after(world.random.randrange(_MOST_MESSAGES), gateway.process.kill)
        _turns(client, world, session, 20)
        gateway.process.kill()
    except Gone:
        pass
    client.close()
    world.wait(gateway.process, (-signal.SIGKILL,))
    _check_gateway_resumes(world, session)


def kill_hosted_agent(world: SoakWorld) -> None:
    """The gateway's agent is killed. The turn ends with an error, and the session goes on after that."""
    gateway = Gateway(world)
    client = GatewayClient(world, gateway, world.gateway_store)
    client.initialize()
    session = client.new_session()

    def kill_agents() -> None:
        for pid, command in descendants(gateway.process.pid).items():
            if "accord.cli agent" in command:
                kill(pid)

    client.act_after(world.random.randrange(_MOST_MESSAGES), kill_agents)
    with suppress(Refused):
        _turns(client, world, session, 20)
    client.load(session)
    require(client.prompt(session, GO_ON) == "end_turn", f"session {session} does not go on")
    client.close()
    _stop_gateway(world, gateway)


def _check_gateway_resumes(world: SoakWorld, session: str | None) -> None:
    gateway = Gateway(world)
    client = GatewayClient(world, gateway, world.gateway_store)
    client.initialize()
    if session is not None:
        client.load(session)
        require(client.prompt(session, GO_ON) == "end_turn", f"session {session} does not go on")
    client.close()
    _stop_gateway(world, gateway)


def _stop_gateway(world: SoakWorld, gateway: Gateway) -> None:
    gateway.process.terminate()
    world.wait(gateway.process, (0,))
    listed = world.home / "data" / "gateway" / "running" / f"{gateway.process.pid}.json"
    require(not listed.exists(), f"the stopped gateway is still listed: {listed}")


# -- signals -------------------------------------------------------------------------------------------------


def interrupt_client(world: SoakWorld) -> None:
    """`accord run` gets Ctrl-C or SIGTERM. It ends with the documented code, and the session goes on."""
    run = RunClient(world, _prompt(world))
    run.read(world.random.randrange(1, 25))
    run.process.send_signal(world.random.choice([signal.SIGINT, signal.SIGTERM]))
    run.read()
    world.wait(run.process, (0, 130, 143))
    if run.session is not None and run.session in world.sessions(world.agent_store):
        _check_resumable(world, run.session)


def suspend_agent(world: SoakWorld) -> None:
    """The agent stands still for a while, as when a laptop sleeps."""
    client = AgentClient(world)
    session = _open(client, world)

    def suspend() -> None:
        client.process.send_signal(signal.SIGSTOP)
        time.sleep(world.random.uniform(0.05, 1.0))
        client.process.send_signal(signal.SIGCONT)

    client.act_after(world.random.randrange(_MOST_MESSAGES), suspend)
    _turns(client, world, session, 3)
    client.close()


# -- disks, pipes, clocks ------------------------------------------------------------------------------------


def full_disk(world: SoakWorld) -> None:
    """The agent cannot write its log for a while. The turns fail, what was stored stays, then it goes on."""
    client = AgentClient(world)
    session = _open(client, world)
    told = world.told(client.store, session)
    disk = _Disk(client.process.pid)
    stored: list[int] = []

    def fill() -> None:
        stored[:] = [len(told.updates), told.turns]
        disk.fill()

    client.act_after(world.random.randrange(1, _MOST_MESSAGES), fill)
    failed = 0
    for _ in range(4):
        try:
            client.prompt(session, _prompt(world))
        except Refused:
            failed += 1
    disk.free()
    if stored:
        require(failed, "the turns on a full disk ended without an error")
        del told.updates[stored[0] :]  # the error said that the rest is not stored
        told.turns = stored[1]
    client.close()
    _check_resumable(world, session)


def full_gateway_disk(world: SoakWorld) -> None:
    """The gateway cannot write its log for a while. What was stored stays, and the session goes on."""
    gateway = Gateway(world)
    client = GatewayClient(world, gateway, world.gateway_store)
    client.initialize()
    session = client.new_session()
    _turns(client, world, session, 1)
    told = world.told(client.store, session)
    stored = len(told.texts), told.turns
    disk = _Disk(gateway.process.pid)
    disk.fill()
    for _ in range(2):
        with suppress(Refused):
            client.prompt(session, _prompt(world))
    disk.free()
    del told.texts[stored[0] :]
    told.turns = stored[1]
    with suppress(Refused):  # the first turn after the failure may report it
        client.prompt(session, GO_ON)
    client.close()
    _stop_gateway(world, gateway)
    del told.texts[stored[0] :]
    told.turns = stored[1]
    _check_gateway_resumes(world, session)


class _Disk:
    """The disk as one process sees it. No file of the process can grow while it is full."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (1, self._limits[1]))

    def free(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, self._limits)


def broken_pipe(world: SoakWorld) -> None:
    """The reader of the agent's output goes away while its input stays open. The agent ends."""
    client = AgentClient(world)
    session = _open(client, world)
    assert client.process.stdout is not None
    client.act_after(world.random.randrange(_MOST_MESSAGES), client.process.stdout.close)
    with suppress(ValueError):
        _turns(client, world, session, 20)
        client.process.stdout.close()
    client.call_without_answer(session, GO_ON)
    world.wait(client.process, (0, 1))
    _check_resumable(world, session)


def broken_output(world: SoakWorld) -> None:
    """The reader of `accord run` goes away, as in `accord run ... | head -1`."""
    run = RunClient(world, _prompt(world))
    run.read(world.random.randrange(10))
    assert run.process.stdout is not None
    run.process.stdout.close()
    world.wait(run.process, (0, 1, 130, 141, -signal.SIGPIPE))


def slow_reader(world: SoakWorld) -> None:
    """A client reads slowly from a small pipe. It gets everything."""
    client = AgentClient(world)
    assert client.process.stdout is not None
    _shrink(client.process)
    session = _open(client, world)

    def remember_slowly(told: Acknowledged, message: Message) -> None:
        remember_update(told, message)
        time.sleep(world.random.choice([0, 0, 0, 0.02]))

    client.remember = remember_slowly
    _turns(client, world, session, 3)
    client.close()


def slow_gateway_client(world: SoakWorld) -> None:
    """One client of the gateway does not read. The other one of the same session is not held up."""
    gateway = Gateway(world)
    quick = GatewayClient(world, gateway, world.gateway_store)
    quick.initialize()
    session = quick.new_session()
    slow = GatewayClient(world, gateway, world.gateway_store)
    slow.initialize()
    slow.load(session)
    _turns(quick, world, session, 5)
    quick.close()
    slow.close()
    _stop_gateway(world, gateway)


def clock_jump(world: SoakWorld) -> None:
    """The wall clock jumps during turns, by up to ten years in both directions."""
    clock = world.folder / "clock"
    clock.write_text("0")
    client = AgentClient(world, PYTHONPATH=str(_FAKE_CLOCK), SOAK_CLOCK=str(clock))
    session = _open(client, world)
    for _ in range(3):
        jump = world.random.randrange(-10 * 365, 10 * 365) * 86400
        client.act_after(world.random.randrange(15), lambda jump=jump: clock.write_text(str(jump)))
        _turns(client, world, session, 1)
    client.close()
    _check_resumable(world, session)


def _shrink(process: "subprocess.Popen[bytes]") -> None:
    """Give the program's output the smallest pipe, so that it soon has to wait for its reader."""
    import fcntl

    assert process.stdout is not None
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, os.sysconf("SC_PAGE_SIZE"))


ROUNDS: dict[str, tuple[Callable[[SoakWorld], None], int]] = {
    "agent killed": (kill_agent, 4),
    "client killed": (kill_client, 3),
    "watcher killed": (kill_watcher, 2),
    "MCP server killed": (kill_mcp_server, 2),
    "command killed": (kill_command, 2),
    "gateway killed": (kill_gateway, 3),
    "agent of a gateway killed": (kill_hosted_agent, 2),
    "client interrupted": (interrupt_client, 2),
    "agent suspended": (suspend_agent, 1),
    "disk of an agent full": (full_disk, 2),
    "disk of a gateway full": (full_gateway_disk, 1),
    "pipe of an agent broken": (broken_pipe, 2),
    "output of a client broken": (broken_output, 2),
    "slow reader of an agent": (slow_reader, 1),
    "slow client of a gateway": (slow_gateway_client, 1),
    "clock jump": (clock_jump, 2),
}
"""The rounds by name, each with its weight."""
