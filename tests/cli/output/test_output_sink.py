"""Output to a closed, slow or full stream: no traceback, no lost text, the right exit code."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from accord.cli.output import output_for
from accord.cli.output.output_sink import OutputStream
from accord.errors import AccordError
from accord.testing.scripted_agent import AgentScript


def test_a_closed_reader_raises_only_in_write() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        sink = OutputStream(stream)
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                sink.write("text")
        sink.try_write("text")
        stream.write("text left in the buffer")  # flushed without an error when the file is closed


def test_a_full_disk_is_a_one_line_error() -> None:
    with (
        open("/dev/full", "w") as stream,
        pytest.raises(AccordError, match="cannot write the output \\(No space left"),
    ):
        OutputStream(stream).write("text")


def test_a_slow_reader_of_a_non_blocking_pipe_gets_everything() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 1 << 16):
            got.append(data)

    text = "é" * (1 << 20)
    reader = threading.Thread(target=read)
    with open(writing, "w", encoding="utf-8") as stream:
        reader.start()
        OutputStream(stream).write(text)
    reader.join()
    os.close(reading)
    assert b"".join(got).decode() == text


def test_characters_outside_the_encoding_are_replaced(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w", encoding="ascii") as stream:
        OutputStream(stream).write("naïve 語\n")
    assert (tmp_path / "out").read_bytes() == b"na?ve ?\n"


def test_outputs_without_streams_write_nothing() -> None:
    for format in ("text", "json", "quiet"):
        output = output_for(format, stdout=None, stderr=None, terminal=False)
        output.note("a note")
        output.finished(None, AccordError("why"), 1)


@pytest.mark.parametrize("format", ["text", "json", "quiet"])
def test_a_reader_that_closes_early_ends_the_command_without_an_error(format: str, tmp_path: Path) -> None:
    agent = AgentScript(tmp_path).command([[{"say": ["first line\n"] + ["many words " * 400 + "\n"] * 200}]])
    command = [sys.executable, "-m", "accord.cli", "run", "--format", format, "go", "--", *agent]
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.read(1)
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 0


def test_format_json_prints_only_json_lines(tmp_path: Path) -> None:
    agent = AgentScript(tmp_path).command([[{"say": "Hi."}]])
    command = [sys.executable, "-m", "accord.cli", "run", "--format", "json", "go", "--", *agent]
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines if line["type"] in ("opened", "result")] == ["opened", "result"]
    assert lines[-1]["text"] == "Hi."
