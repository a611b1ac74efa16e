"""`accord trace record`: nobody on either side can tell that it is there, and everything is kept."""

import fcntl
import hashlib
import os
import pty
import random
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from tests.trace.reading import entries_in, starts_in
from tests.trace.recorded import AGENT, CLIENT, RECORD, gone, python, recorded, recorder

ECHO = python("import os\nwhile data := os.read(0, 65536):\n  while data: data = data[os.write(1, data):]")


def shown(file: Path, sender: str) -> list[bytes]:
    return [
        entry.data
        for entry in entries_in(file)
        if entry.sender == sender and entry.kind in ("frame", "stderr")
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_a_conversation_is_the_same_and_is_kept(file: Path):
    plain = subprocess.run(CLIENT, capture_output=True, check=True)
    under = subprocess.run([*CLIENT, *RECORD, "-o", str(file), "--", *AGENT], capture_output=True, check=True)
    assert (under.stdout, under.stderr) == (plain.stdout, plain.stderr)
    (start,) = starts_in(file)
    assert start.command == tuple(AGENT)
    methods = [
        entry.message["method"] for entry in entries_in(file) if entry.message and "method" in entry.message
    ]
    assert methods[:3] == ["initialize", "session/new", "session/prompt"]
    assert methods.count("session/update") > 10
    assert "session/request_permission" in methods
    assert [entry.kind for entry in entries_in(file)][-1] == "exit"


def test_bytes_pass_untouched(file: Path):
    noise = random.Random(7)
    data = b"".join(
        (
            b'{"jsonrpc":"2.0"}\n',
            b"no json at all\r\n\n\n   \n",
            noise.randbytes(300_000),
            b'\n"' + b"x" * 3_000_000 + b'"\n',
            b"\xef\xbb\xbf{}\n\x00\x00\n",
            b'{"apiKey":"hunter22hunter22"}\n',
            b"a last line without its end",
        )
    )
    run = recorded(file, ECHO, data)
    assert (run.returncode, run.stderr) == (0, b"")
    assert hashlib.sha256(run.stdout).digest() == hashlib.sha256(data).digest()
    assert shown(file, "client") == shown(file, "agent")
    assert shown(file, "agent")[-1] == b"a last line without its end"
    assert b"hunter22" not in file.read_bytes()


def test_a_frame_of_twenty_megabytes(file: Path):
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"word " * 4_000_000 + b'"}}'
    run = recorded(file, ECHO, frame + b"\n")
    assert run.stdout == frame + b"\n"
    assert shown(file, "client") == shown(file, "agent") == [frame]


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_agents(code: int, file: Path):
    assert recorded(file, python(f"raise SystemExit({code})")).returncode == code
    assert [entry.code for entry in entries_in(file) if entry.kind == "exit"] == [code]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT"])
def test_an_agent_ended_by_a_signal_ends_us_by_the_same(name: str, file: Path):
    code = f"import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), signal.{name})"
    assert recorded(file, python(code)).returncode == -signal.Signals[name]
    assert [entry.signal for entry in entries_in(file) if entry.kind == "exit"] == [name]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_signals_reach_the_agent(name: str, file: Path):
    code = f"import signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.{name}])\nprint('ready', flush=True)\nprint(signal.sigwait([signal.{name}]).name, flush=True)\nsys.exit(9)"
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.Signals[name])
        assert running.stdout.read() == name.encode() + b"\n"
    assert running.returncode == 9


def test_what_a_terminal_sends_reaches_the_agents_whole_group(file: Path):
    """Ctrl-C at a terminal is for everybody in the foreground."""
    code = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
child = os.fork()
os.write(1, b"+")
signal.sigwait([signal.SIGINT])
os.write(1, b"!")
if child: os.waitpid(child, 0)
"""
    leader, follower = pty.openpty()
    with recorder(
        file,
        python(code),
        stdin=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as running:
        os.close(follower)
        assert running.stdout is not None
        assert running.stdout.read(1) + running.stdout.read(1) == b"++"
        os.write(leader, b"\x03")
        assert running.stdout.read() == b"!!"
    os.close(leader)
    assert running.returncode == 0


def test_a_stopped_recorder_stops_the_agent_and_goes_on_with_it(file: Path):
    code = "import os\nos.write(1, b'%d\\n' % os.getpid())\nos.write(1, os.read(0, 10))"
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        agent = int(running.stdout.readline())
        running.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(running.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        while Path(f"/proc/{agent}/stat").read_text().rpartition(") ")[2][0] != "T":
            os.sched_yield()
        running.send_signal(signal.SIGCONT)
        running.stdin.write(b"go on")
        assert running.stdout.read() == b"go on"
    assert running.returncode == 0


def test_ignored_signals_stay_ignored(file: Path):
    """As for a program that `nohup` started: what ends the terminal does not end it."""
    with recorder(file, ECHO, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"1")
        assert running.stdout.read(1) == b"1"
        running.send_signal(signal.SIGHUP)
        running.stdin.write(b"2")
        assert running.stdout.read(1) == b"2"
        running.stdin.close()
    assert running.returncode == 0


def test_an_agent_killed_in_the_middle_leaves_a_whole_recording(file: Path):
    code = 'import os\nos.write(1, b\'%d\\n{"id":1,"half\' % os.getpid())\nos.read(0, 1)'
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        os.kill(int(running.stdout.readline()), signal.SIGKILL)
        assert running.stdout.read() == b'{"id":1,"half'
    assert running.returncode == -signal.SIGKILL
    assert shown(file, "agent")[-1] == b'{"id":1,"half'
    assert [entry.signal for entry in entries_in(file) if entry.kind == "exit"] == ["SIGKILL"]


FAMILY = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
fifo = sys.argv[1]
if os.fork() == 0:
    if len(sys.argv) > 2: os.setsid()
    held = os.open(fifo, os.O_WRONLY)
    os.write(held, b"x")
    signal.pause()
held = os.open(fifo, os.O_WRONLY)
print("ready", flush=True)
"""


def test_the_whole_tree_ends_when_we_are_killed(file: Path, tmp_path: Path):
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    with recorder(file, [*python(FAMILY + "signal.pause()"), str(fifo), "away"]) as running:
        listening = os.open(fifo, os.O_RDONLY)
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        assert os.read(listening, 1) == b"x"
        running.kill()
        while os.read(listening, 100):
            pass
        os.close(listening)


def test_stragglers_end_with_the_agent_and_do_not_hold_up_the_end(file: Path, tmp_path: Path):
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    with recorder(file, [*python(FAMILY + "sys.exit(4)"), str(fifo)]) as running:
        gone(fifo)
        assert running.stdout is not None
        assert running.stdout.read() == b"ready\n"
    assert running.returncode == 4


def test_the_clients_end_reaches_the_agent_which_still_answers(file: Path):
    code = "import sys; data = sys.stdin.read(); print(len(data)); print('bye', file=sys.stderr)"
    run = recorded(file, python(code), b"12345")
    assert (run.returncode, run.stdout, run.stderr) == (0, b"5\n", b"bye\n")
    assert [(entry.kind, entry.sender) for entry in entries_in(file) if entry.kind == "closed"] == [
        ("closed", "client"),
        ("closed", "agent"),
    ]
    assert shown(file, "stderr") == [b"bye"]


def test_the_agents_end_reaches_the_client_while_it_lives(file: Path):
    code = "import os\nos.write(1, b'last')\nos.close(1)\nos.write(2, os.read(0, 100))"
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stderr is not None
        assert running.stdout.read() == b"last"
        running.stdin.write(b"still here")
        assert running.stderr.read() == b"still here"
    assert running.returncode == 0


def write_on(fd: int) -> None:
    while True:
        os.write(fd, b"x" * 65536)


def test_an_agent_that_closes_its_input_is_felt(file: Path):
    code = "import os, sys\nos.close(0)\nprint('closed', flush=True)\nsys.stderr.close()\nimport signal; signal.pause()"
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.readline() == b"closed\n"
        with pytest.raises(BrokenPipeError):
            write_on(running.stdin.fileno())
        running.terminate()
    assert running.returncode == -signal.SIGTERM


def test_a_client_that_stops_reading_is_felt(file: Path):
    code = """
import os, sys
try:
    while True: os.write(1, b"x" * 65536)
except BrokenPipeError:
    sys.exit(21)
"""
    with recorder(file, python(code)) as running:
        assert running.stdout is not None
        running.stdout.read(10)
        running.stdout.close()
        assert running.wait() == 21


def test_a_slow_reader_slows_the_agent_and_loses_nothing(file: Path):
    code = """
import os, select, sys
os.set_blocking(1, False)
line, sent = b"x" * 1023 + b"\\n", 0
while select.select((), (1,), (), 0.3)[1] and sent < 20_000_000:
    sent += os.write(1, line)
os.set_blocking(1, True)
os.write(2, b"%d\\n" % sent)
"""
    with recorder(file, python(code)) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        sent = int(running.stderr.readline())
        assert 0 < sent < 1_000_000  # what pipes and we hold: far less than it wanted to send
        assert len(running.stdout.read()) == sent
    assert running.returncode == 0
    assert (
        sum(entry.size + 1 for entry in entries_in(file) if entry.sender == "agent" and entry.kind == "frame")
        == sent
    )


def test_files_in_place_of_pipes(file: Path, tmp_path: Path):
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = subprocess.run(
            [*RECORD, "-o", str(file), "--", *ECHO], stdin=source, stdout=target, check=True
        )
    assert done.returncode == 0
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"


def test_closed_descriptors_from_the_start(file: Path):
    command = " ".join(f"'{word}'" for word in (*RECORD, "-o", str(file), "--", *python("print(1)")))
    done = subprocess.run(["/bin/sh", "-c", f"{command} <&- >&-"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert shown(file, "agent") == [b"1"]


def test_secrets_are_kept_only_on_demand(file: Path, tmp_path: Path):
    frame = b'{"method":"session/new","params":{"mcpServers":[{"env":[{"name":"X","value":"hunter22"}]}]}}\n'
    code = "import sys; print('OPENAI_API_KEY=hunter22', file=sys.stderr); sys.stdout.write(sys.stdin.read())"
    assert recorded(file, python(code), frame).stdout == frame
    assert b"hunter22" not in file.read_bytes()
    other = tmp_path / "other.jsonl"
    assert recorded(other, python(code), frame, "--no-redact").stdout == frame
    assert other.read_bytes().count(b"hunter22") == 4  # the command's own, stderr, both ways


def test_without_a_file_it_says_where_the_recording_is(tmp_path: Path):
    env = {**os.environ, "ACCORD_HOME": str(tmp_path)}
    done = subprocess.run(
        [*RECORD, "--", *python("print(1)")], capture_output=True, text=True, check=True, env=env
    )
    (made,) = (tmp_path / "data/traces").iterdir()
    assert done.stderr == f"accord trace: recording to {made}\n"
    assert shown(made, "agent") == [b"1"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-o", "{tmp}/t", "--", "no-such-agent"], 3, "no-such-agent was not started: it is not on PATH"),
        (
            ["-o", "{tmp}/missing/t", "--", "true"],
            2,
            "missing/t cannot be written (No such file or directory)",
        ),
        (["-o", "{tmp}/t"], 2, "record needs the agent's command: accord trace record -- COMMAND ..."),
        (["-o", "{tmp}/t", "--"], 2, "record needs the agent's command"),
        (["agent", "--acp"], 2, "put -- before the agent's command: accord trace record -- agent --acp"),
        (["--quick", "--", "agent"], 2, "record does not know --quick"),
        (["--redact", "--no-redact", "--", "true"], 2, "--redact or --no-redact, not both"),
        (["-o"], 2, "expected one argument"),
    ],
)
def test_what_is_wrong_is_one_line(words: list[str], code: int, sentence: str, tmp_path: Path):
    done = subprocess.run(
        [*RECORD, *(word.format(tmp=tmp_path) for word in words)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("accord trace: ")


def test_a_program_that_reads_slowly_gets_everything(file: Path):
    """The client's big frame waits for the agent, not in our memory alone."""
    code = "import sys\nsize = 0\nwhile data := sys.stdin.buffer.read1(1000): size += len(data)\nprint(size)"
    assert recorded(file, python(code), b"y" * 2_000_000).stdout == b"2000000\n"


def test_the_file_can_fail_and_the_conversation_goes_on():
    done = recorded(Path("/dev/full"), ECHO, b"hello\n")
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    assert done.stderr.count(b"could not be written") == 1


def test_a_recording_has_its_end_however_much_came_before(file: Path):
    """What is looked through for secrets takes longer than what passes: the rest is waited for."""
    words = b"the token of a word, a key: value = other\\n" * 100_000
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"text":"%b"}}\n' % words
    run = recorded(
        file, python("import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"), frame
    )
    assert (run.returncode, run.stdout == frame, run.stderr) == (0, True, b"")
    entries = entries_in(file)
    assert [(entry.kind, entry.size) for entry in entries if entry.kind != "closed"] == [
        ("frame", len(frame) - 1),
        ("frame", len(frame) - 1),
        ("exit", 0),
    ]
