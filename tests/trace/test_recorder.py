"""`accord trace record` passes bytes, signals and exit codes through unchanged, and keeps all of them."""

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
from tests.trace.recorder_process import (
    AGENT,
    CLIENT,
    RECORD,
    python,
    run_recorder,
    start_recorder,
    wait_for_fifo_writers,
)
from tests.trace.trace_files import entries_in, starts_in

ECHO = python("import os\nwhile data := os.read(0, 65536):\n  while data: data = data[os.write(1, data):]")


def recorded_data(file: Path, sender: str) -> list[bytes]:
    return [
        entry.data
        for entry in entries_in(file)
        if entry.sender == sender and entry.kind in ("frame", "stderr")
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_recording_does_not_change_a_conversation(file: Path):
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


def test_bytes_pass_through_unchanged(file: Path):
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
    run = run_recorder(file, ECHO, data)
    assert (run.returncode, run.stderr) == (0, b"")
    assert hashlib.sha256(run.stdout).digest() == hashlib.sha256(data).digest()
    assert recorded_data(file, "client") == recorded_data(file, "agent")
    assert recorded_data(file, "agent")[-1] == b"a last line without its end"
    assert b"hunter22" not in file.read_bytes()


def test_a_frame_of_twenty_megabytes_passes_and_is_kept(file: Path):
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"word " * 4_000_000 + b'"}}'
    run = run_recorder(file, ECHO, frame + b"\n")
    assert run.stdout == frame + b"\n"
    assert recorded_data(file, "client") == recorded_data(file, "agent") == [frame]


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_agents(code: int, file: Path):
    assert run_recorder(file, python(f"raise SystemExit({code})")).returncode == code
    assert [entry.code for entry in entries_in(file) if entry.kind == "exit"] == [code]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT"])
def test_an_agent_killed_by_a_signal_ends_the_recorder_with_that_signal(name: str, file: Path):
    code = (
        "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        f"os.kill(os.getpid(), signal.{name})"
    )
    assert run_recorder(file, python(code)).returncode == -signal.Signals[name]
    assert [entry.signal for entry in entries_in(file) if entry.kind == "exit"] == [name]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_signals_are_forwarded_to_the_agent(name: str, file: Path):
    code = (
        f"import signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.{name}])\n"
        f"print('ready', flush=True)\nprint(signal.sigwait([signal.{name}]).name, flush=True)\nsys.exit(9)"
    )
    with start_recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.Signals[name])
        assert running.stdout.read() == name.encode() + b"\n"
    assert running.returncode == 9


def test_ctrl_c_at_a_terminal_reaches_the_agents_process_group(file: Path):
    """Ctrl-C at a terminal goes to every process in the foreground."""
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
    with start_recorder(
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


def test_stopping_the_recorder_stops_the_agent_until_it_continues(file: Path):
    code = "import os\nos.write(1, b'%d\\n' % os.getpid())\nos.write(1, os.read(0, 10))"
    with start_recorder(file, python(code)) as running:
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
    """Like a program started with `nohup`: the end of the terminal does not end it."""
    with start_recorder(
        file, ECHO, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"1")
        assert running.stdout.read(1) == b"1"
        running.send_signal(signal.SIGHUP)
        running.stdin.write(b"2")
        assert running.stdout.read(1) == b"2"
        running.stdin.close()
    assert running.returncode == 0


def test_an_agent_killed_mid_line_leaves_a_complete_recording(file: Path):
    code = 'import os\nos.write(1, b\'%d\\n{"id":1,"half\' % os.getpid())\nos.read(0, 1)'
    with start_recorder(file, python(code)) as running:
        assert running.stdout is not None
        os.kill(int(running.stdout.readline()), signal.SIGKILL)
        assert running.stdout.read() == b'{"id":1,"half'
    assert running.returncode == -signal.SIGKILL
    assert recorded_data(file, "agent")[-1] == b'{"id":1,"half'
    assert [entry.signal for entry in entries_in(file) if entry.kind == "exit"] == ["SIGKILL"]


FORKING_AGENT = """
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


def test_killing_the_recorder_ends_the_agents_process_tree(file: Path, tmp_path: Path):
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    with start_recorder(file, [*python(FORKING_AGENT + "signal.pause()"), str(fifo), "away"]) as running:
        listening = os.open(fifo, os.O_RDONLY)
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        assert os.read(listening, 1) == b"x"
        running.kill()
        while os.read(listening, 100):
            pass
        os.close(listening)


def test_child_processes_end_with_the_agent_and_do_not_delay_the_exit(file: Path, tmp_path: Path):
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    with start_recorder(file, [*python(FORKING_AGENT + "sys.exit(4)"), str(fifo)]) as running:
        wait_for_fifo_writers(fifo)
        assert running.stdout is not None
        assert running.stdout.read() == b"ready\n"
    assert running.returncode == 4


def test_end_of_client_input_reaches_an_agent_that_still_answers(file: Path):
    code = "import sys; data = sys.stdin.read(); print(len(data)); print('bye', file=sys.stderr)"
    run = run_recorder(file, python(code), b"12345")
    assert (run.returncode, run.stdout, run.stderr) == (0, b"5\n", b"bye\n")
    assert [(entry.kind, entry.sender) for entry in entries_in(file) if entry.kind == "closed"] == [
        ("closed", "client"),
        ("closed", "agent"),
    ]
    assert recorded_data(file, "stderr") == [b"bye"]


def test_end_of_agent_output_reaches_the_client_while_the_agent_runs(file: Path):
    code = "import os\nos.write(1, b'last')\nos.close(1)\nos.write(2, os.read(0, 100))"
    with start_recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stderr is not None
        assert running.stdout.read() == b"last"
        running.stdin.write(b"still here")
        assert running.stderr.read() == b"still here"
    assert running.returncode == 0


def write_forever(fd: int) -> None:
    while True:
        os.write(fd, b"x" * 65536)


def test_an_agent_that_closes_its_input_breaks_the_clients_pipe(file: Path):
    code = (
        "import os, sys\nos.close(0)\nprint('closed', flush=True)\nsys.stderr.close()\n"
        "import signal; signal.pause()"
    )
    with start_recorder(file, python(code)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.readline() == b"closed\n"
        with pytest.raises(BrokenPipeError):
            write_forever(running.stdin.fileno())
        running.terminate()
    assert running.returncode == -signal.SIGTERM


def test_a_client_that_stops_reading_breaks_the_agents_pipe(file: Path):
    code = """
import os, sys
try:
    while True: os.write(1, b"x" * 65536)
except BrokenPipeError:
    sys.exit(21)
"""
    with start_recorder(file, python(code)) as running:
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
    with start_recorder(file, python(code)) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        sent = int(running.stderr.readline())
        # only what the pipes and the recorder hold, far less than the agent wanted to send
        assert 0 < sent < 1_000_000
        assert len(running.stdout.read()) == sent
    assert running.returncode == 0
    assert (
        sum(entry.size + 1 for entry in entries_in(file) if entry.sender == "agent" and entry.kind == "frame")
        == sent
    )


def test_standard_input_and_output_can_be_files(file: Path, tmp_path: Path):
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = subprocess.run(
            [*RECORD, "-o", str(file), "--", *ECHO], stdin=source, stdout=target, check=True
        )
    assert done.returncode == 0
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"


def test_recording_works_with_standard_input_and_output_closed(file: Path):
    command = " ".join(f"'{word}'" for word in (*RECORD, "-o", str(file), "--", *python("print(1)")))
    done = subprocess.run(["/bin/sh", "-c", f"{command} <&- >&-"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert recorded_data(file, "agent") == [b"1"]


def test_secrets_are_kept_only_with_no_redact(file: Path, tmp_path: Path):
    frame = b'{"method":"session/new","params":{"mcpServers":[{"env":[{"name":"X","value":"hunter22"}]}]}}\n'
    code = "import sys; print('OPENAI_API_KEY=hunter22', file=sys.stderr); sys.stdout.write(sys.stdin.read())"
    assert run_recorder(file, python(code), frame).stdout == frame
    assert b"hunter22" not in file.read_bytes()
    other = tmp_path / "other.jsonl"
    assert run_recorder(other, python(code), frame, "--no-redact").stdout == frame
    assert other.read_bytes().count(b"hunter22") == 4  # in the command, on stderr, and in both directions


def test_without_an_output_file_the_recorder_prints_where_it_records(tmp_path: Path):
    env = {**os.environ, "ACCORD_HOME": str(tmp_path)}
    done = subprocess.run(
        [*RECORD, "--", *python("print(1)")], capture_output=True, text=True, check=True, env=env
    )
    (made,) = (tmp_path / "data/traces").iterdir()
    assert done.stderr == f"accord trace: recording to {made}\n"
    assert recorded_data(made, "agent") == [b"1"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-o", "{tmp}/t", "--", "no-such-agent"], 3, "cannot start no-such-agent: it is not on PATH"),
        (
            ["-o", "{tmp}/missing/t", "--", "true"],
            2,
            "missing/t (No such file or directory)",
        ),
        (["-o", "{tmp}/t"], 2, "missing agent command; use `accord trace record -- COMMAND ...`"),
        (["-o", "{tmp}/t", "--"], 2, "missing agent command after `--`"),
        (
            ["agent", "--acp"],
            2,
            "missing `--` before the agent's command; use `accord trace record -- agent --acp`",
        ),
        (["--quick", "--", "agent"], 2, "unknown arguments --quick"),
        (["--redact", "--no-redact", "--", "true"], 2, "--redact and --no-redact exclude each other"),
        (["-o"], 2, "expected one argument"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], code: int, sentence: str, tmp_path: Path):
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


def test_an_agent_that_reads_slowly_gets_everything(file: Path):
    """The client's large frame is not buffered whole by the recorder."""
    code = "import sys\nsize = 0\nwhile data := sys.stdin.buffer.read1(1000): size += len(data)\nprint(size)"
    assert run_recorder(file, python(code), b"y" * 2_000_000).stdout == b"2000000\n"


def test_a_full_disk_does_not_stop_the_conversation():
    done = run_recorder(Path("/dev/full"), ECHO, b"hello\n")
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    assert done.stderr.count(b"cannot write the trace") == 1


def test_a_large_recording_has_its_end(file: Path):
    """Redaction takes longer than forwarding, so the recorder waits for it before it exits."""
    words = b"the token of a word, a key: value = other\\n" * 20_000
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"text":"%b"}}\n' % words
    run = run_recorder(
        file, python("import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"), frame
    )
    assert (run.returncode, run.stdout == frame, run.stderr) == (0, True, b"")
    entries = entries_in(file)
    assert [(entry.kind, entry.size) for entry in entries if entry.kind != "closed"] == [
        ("frame", len(frame) - 1),
        ("frame", len(frame) - 1),
        ("exit", 0),
    ]
