"""Cases: files, terminals, commands."""

import os
from pathlib import Path
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import (
    LONG_COMMAND,
    CheckedTerminal,
    ClientCases,
    ClientFixture,
    ClientTurn,
)
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at

case: Final = ClientCases()


async def _read(
    client: ClientUnderTest, path: Path, rule: RuleId = "file.read-result", **more: Any
) -> CallAnswer:
    params = {"sessionId": client.responder.session, "path": str(path), **more}
    return await client.call("fs/read_text_file", params, rule=rule)


def _is_refusal(fixture: ClientFixture, answer: CallAnswer) -> bool:
    """Whether an error may be the refusal of a user: no action of the script allows it."""
    return not answer.ok and answer.code not in (-32601, -32602) and not fixture.has_action("allow")


@case("file.read-result file.line-and-limit file.missing-file file.invalid-line-or-limit", "fs.readTextFile")
async def read_files(fixture: ClientFixture) -> None:
    """Reading files: a whole file, some lines, a missing file, wrong types."""
    rule = "file.invalid-line-or-limit"
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client, notes, path = turn.client, fixture.notes, fixture.folder / "notes.txt"
    answer = await _read(client, path)
    if _is_refusal(fixture, answer):
        raise CaseUnavailable(f"it did not allow reading: {answer.summary}")
    passed = at(answer.result, "content") == "one\ntwo\nthree\n"
    notes.judge("file.read-result", passed, "it returned the text", f"reading gave {answer.summary}", answer)
    for more, expected in (({"line": 2, "limit": 1}, "two"), ({"line": 3}, "three"), ({"limit": 1}, "one")):
        answer = await _read(client, path, "file.line-and-limit", **more)
        text = at(answer.result, "content")
        passed = isinstance(text, str) and text.rstrip("\n") == expected
        failure = f"{more} gave {answer.summary}"
        notes.judge("file.line-and-limit", passed, f"{more} gave {expected!r}", failure, answer)
    answer = await _read(client, fixture.folder / "missing.txt", "file.missing-file")
    passed = not answer.ok and answer.code == -32002
    failure = f"a missing file gave {answer.summary}; expected -32002"
    notes.judge("file.missing-file", passed, "-32002", failure, answer)
    for more in ({"line": "2"}, {"limit": -1}, {"limit": 1.5}, {"line": -1}):
        answer = await _read(client, path, rule, **more)
        failure = f"{more} gave {answer.summary}; expected -32602"
        notes.judge(rule, answer.code == -32602, f"{more} gave -32602", failure, answer)
    await fixture.finish_turn(turn)


@case("file.inside-roots", "fs.readTextFile")
async def paths_outside(fixture: ClientFixture) -> None:
    """Paths outside the roots: links, `..` and paths to other folders."""
    rule = "file.inside-roots"
    link = fixture.folder / "link.txt"
    link.symlink_to(fixture.outside / "secret.txt")
    (fixture.folder / "away").symlink_to(fixture.outside)
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    for path in (link, fixture.folder / ".." / "outside" / "secret.txt", fixture.outside / "secret.txt"):
        answer = await _read(client, path, rule)
        failure = f"{path.name} outside of the roots was read"
        fixture.judge(rule, not answer.ok, "refused", failure, answer)
    if client.advertises("fs.writeTextFile"):
        target = fixture.folder / "away" / "made.txt"
        params = {"sessionId": client.responder.session, "path": str(target), "content": "x"}
        answer = await client.call("fs/write_text_file", params, rule=rule)
        created = (fixture.outside / "made.txt").exists()
        fixture.judge(
            rule, not created, "no file was created", "a file was created outside of the roots", answer
        )
    await fixture.finish_turn(turn)


@case("framing.client-empty-results file.write-creates", "fs.writeTextFile")
async def write_files(fixture: ClientFixture) -> None:
    """Writing files: a new file."""
    rule = "file.write-creates"
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    target = fixture.folder / "made.txt"
    params = {"sessionId": client.responder.session, "path": str(target), "content": "made\n"}
    answer = await client.call("fs/write_text_file", params, rule=rule)
    if not answer.ok and not fixture.has_action("allow"):
        fixture.add_not_shown(rule, "it did not allow the write")
    else:
        passed = answer.ok and target.is_file() and target.read_text() == "made\n"
        fixture.judge(rule, passed, "the file is there", f"writing a new file gave {answer.summary}", answer)
    await fixture.finish_turn(turn)


@case("accord.client-unknown-session")
async def unknown_session(fixture: ClientFixture) -> None:
    """An unknown session: requests that name an unknown session."""
    rule = "accord.client-unknown-session"
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    created = fixture.folder / "unknown-session.txt"
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("fs/read_text_file", {"path": str(fixture.folder / "notes.txt")}, "fs.readTextFile"),
        ("fs/write_text_file", {"path": str(created), "content": "x"}, "fs.writeTextFile"),
        ("terminal/create", {"command": "touch", "args": [str(created)]}, "terminal"),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}, ""),
    ]
    for method, params, capability in calls:
        if capability and not client.advertises(capability):
            continue
        answer = await client.call(method, {"sessionId": "nope", **params}, rule=rule)
        named = at(answer.line.message, "error", "data", "sessionId") == "nope"
        refused = (answer.code == -32002 and named) if fixture.script.ours else not answer.ok
        passed = refused and not created.exists()
        if answer.code != -32002 and not created.exists() and _is_refusal(fixture, answer):
            continue
        expected = "-32002 with the session in its data"
        failure = f"{method} for an unknown session gave {answer.summary}; expected {expected}"
        fixture.judge(rule, passed, f"{method} gave {answer.code}", failure, answer)
    await fixture.finish_turn(turn)


@case("file.unadvertised-method")
async def unadvertised_files(fixture: ClientFixture) -> None:
    """Files that are not advertised: fs methods that the client does not offer."""
    rule = "file.unadvertised-method"
    turn = await fixture.start_turn()
    client = turn.client
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("fs.readTextFile", "fs/read_text_file", {"path": str(fixture.folder / "notes.txt")}),
        ("fs.writeTextFile", "fs/write_text_file", {"path": str(fixture.folder / "x"), "content": "x"}),
    )
    for capability, method, params in calls:
        if client.advertises(capability):
            fixture.add_not_applicable(rule, "it advertises them")
            continue
        answer = await client.call(method, {"sessionId": client.responder.session, **params}, rule=rule)
        failure = f"{method}, which it does not advertise, gave {answer.summary}"
        fixture.judge(rule, answer.code == -32601, "-32601", failure, answer)
    await fixture.finish_turn(turn)


async def terminal_turn(fixture: ClientFixture) -> ClientTurn:
    """Start a turn with a client that allows terminals."""
    return await fixture.start_turn(*fixture.available_actions("allow"))


@case(
    "framing.client-empty-results terminal.create-at-once terminal.output-members "
    "terminal.calls-during-wait terminal.kill-keeps-id terminal.released-id-fails terminal.unknown-id",
    "terminal",
)
async def terminal_lifecycle(fixture: ClientFixture) -> None:
    """Terminal lifecycle: a long command: wait, output, kill, release, and calls after the release."""
    rule = "terminal.kill-keeps-id"
    turn = await terminal_turn(fixture)
    client, notes = turn.client, fixture.notes
    terminal = await fixture.open_terminal(client, LONG_COMMAND)
    notes.add_pass("terminal.create-at-once", "it answered while the command ran")
    waiting = terminal.send_request("wait_for_exit")
    answer = await terminal.call("output", "terminal.calls-during-wait")
    notes.add_pass("terminal.calls-during-wait", "it returned the output while a wait was pending", answer)
    is_running = at(answer.result, "exitStatus") is None
    failure = "an exit status while the command runs"
    notes.judge("terminal.output-members", is_running, "no exit status before the exit", failure, answer)
    await terminal.call("kill", rule)
    ended = await client.wait_for_answer(waiting, rule=rule)
    after = await terminal.call("output", rule)
    passed = ended.ok and after.ok
    failure = f"after the kill, output gave {after.summary} and wait gave {ended.summary}"
    notes.judge(rule, passed, "the id is still valid", failure, after, ended)
    has_status = isinstance(at(after.result, "exitStatus"), dict)
    failure = "no exit status after the exit"
    reason = "an exit status after the exit"
    notes.judge("terminal.output-members", has_status or not after.ok, reason, failure, after)
    await terminal.call("release", "terminal.released-id-fails")
    for method in ("output", "wait_for_exit", "kill", "release"):
        answer = await terminal.call(method, "terminal.released-id-fails")
        failure = f"after the release, {method} gave {answer.summary}"
        notes.judge("terminal.released-id-fails", not answer.ok, "an error", failure, answer)
    unknown = await CheckedTerminal(client, "nope").call("output", "terminal.unknown-id")
    failure = f"an unknown terminal gave {unknown.summary}"
    notes.judge("terminal.unknown-id", not unknown.ok, "an error", failure, unknown)
    await fixture.finish_turn(turn)


@case("terminal.release-kills", "terminal")
async def release_running_command(fixture: ClientFixture) -> None:
    """Releasing a running command: its process must end."""
    rule = "terminal.release-kills"
    turn = await terminal_turn(fixture)
    terminal = await fixture.open_terminal(turn.client, LONG_COMMAND)
    pid = (await terminal.wait_for_output("terminal.output-members")).split()
    answer = await terminal.call("release", rule)
    if not pid or not pid[0].isdigit():
        fixture.add_not_shown(rule, "the command did not print its process id")
        return
    has_ended = await _process_has_ended(fixture, int(pid[0]))
    fixture.judge(rule, has_ended, "the process has ended", "the process still runs", answer)
    await fixture.finish_turn(turn)


async def _process_has_ended(fixture: ClientFixture, pid: int) -> bool:
    deadline = fixture.clock.now() + fixture.timeouts.exit
    while fixture.clock.now() < deadline:
        try:
            os.kill(pid, 0)
        except OSError:
            return True
        if _is_zombie(pid):
            return True
        await fixture.clock.sleep(0.02)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (OSError, IndexError):
        return False


@case("cancel-request.client-still-answered", "terminal")
async def cancel_wait(fixture: ClientFixture) -> None:
    """Canceling a wait: $/cancel_request for a pending wait."""
    rule = "cancel-request.client-still-answered"
    turn = await terminal_turn(fixture)
    client = turn.client
    terminal = await fixture.open_terminal(client, LONG_COMMAND)
    waiting = terminal.send_request("wait_for_exit")
    await client.ping()
    client.notify("$/cancel_request", {"requestId": waiting.id})
    await client.ping(rule=rule)
    await terminal.call("kill", rule)
    answer = await client.wait_for_answer(waiting, rule=rule)
    passed = answer.ok or answer.code == -32800
    fixture.judge(rule, passed, answer.summary, f"{answer.summary}; expected a result or -32800", answer)
    await terminal.call("release", rule)
    await fixture.finish_turn(turn)


@case("file.unadvertised-method")
async def unadvertised_terminal(fixture: ClientFixture) -> None:
    """Terminals that are not advertised: terminal/create for a client that has none."""
    rule = "file.unadvertised-method"
    turn = await fixture.start_turn()
    if turn.client.advertises("terminal"):
        fixture.add_not_applicable(rule, "it advertises them")
    else:
        params = {"sessionId": turn.client.responder.session, "command": "true"}
        answer = await turn.client.call("terminal/create", params, rule=rule)
        failure = f"terminal/create, which it does not advertise, gave {answer.summary}"
        fixture.judge(rule, answer.code == -32601, "-32601", failure, answer)
    await fixture.finish_turn(turn)


_PRINT_ENVIRONMENT: Final = (
    "import os,sys; "
    "print(os.environ.get('CHECK_VARIABLE'), os.path.realpath(os.getcwd()), *sys.argv[1:], sep='|')"
)
_PRINT_100_BYTES: Final = "import sys; sys.stdout.buffer.write(('é'*49+'ü').encode()); sys.stdout.flush()"


@case("terminal.environment", "terminal")
async def command_environment(fixture: ClientFixture) -> None:
    """Command environment: arguments, a variable, a folder."""
    rule = "terminal.environment"
    turn = await terminal_turn(fixture)
    client = turn.client
    folder = fixture.folder / "subfolder"
    folder.mkdir()
    terminal = await fixture.open_terminal(
        client,
        _PRINT_ENVIRONMENT,
        rule,
        env=[{"name": "CHECK_VARIABLE", "value": "variable-value"}],
        cwd=str(folder),
        arguments=["two words", "é"],
    )
    await terminal.call("wait_for_exit", rule)
    answer = await terminal.call("output", rule)
    expected = f"variable-value|{folder}|two words|é"
    text = "".join(str(at(answer.result, "output")).split("\n")).replace("\r", "")
    failure = f"expected {expected!r}, the command saw {text!r}"
    fixture.judge(rule, expected in text, "arguments, variable and folder are correct", failure, answer)
    await terminal.call("release", rule)
    await fixture.finish_turn(turn)


@case("terminal.exit-status", "terminal")
async def command_exits(fixture: ClientFixture) -> None:
    """Exit status of a command: an exit code, and a signal."""
    rule = "terminal.exit-status"
    turn = await terminal_turn(fixture)
    for code, member, expected in (
        ("raise SystemExit(3)", "exitCode", 3),
        ("import os; os.kill(os.getpid(), 9)", "signal", "SIGKILL"),
    ):
        terminal = await fixture.open_terminal(turn.client, code, rule)
        answer = await terminal.call("wait_for_exit", rule)
        found = at(answer.result, member)
        passed = found == expected or (
            member == "signal" and isinstance(found, str) and "KILL" in found.upper()
        )
        failure = f"{code!r} gave {answer.summary}; expected {member} {expected!r}"
        fixture.judge(rule, passed, f"{member} {found!r}", failure, answer)
        await terminal.call("release", rule)
    await fixture.finish_turn(turn)


@case("terminal.output-limit", "terminal")
async def output_limit(fixture: ClientFixture) -> None:
    """Output limit: more than the limit, in characters of two bytes."""
    rule = "terminal.output-limit"
    turn = await terminal_turn(fixture)
    terminal = await fixture.open_terminal(turn.client, _PRINT_100_BYTES, rule, outputByteLimit=15)
    await terminal.call("wait_for_exit", rule)
    answer = await terminal.call("output", rule)
    text, truncated = at(answer.result, "output"), at(answer.result, "truncated")
    passed = (
        isinstance(text, str)
        and truncated is True
        and text.strip("é") == "ü"
        and text.endswith("éü")
        and len(text.encode()) <= 15
    )
    failure = f"100 bytes with a limit of 15 gave {answer.summary}"
    fixture.judge(rule, passed, "the start was cut between characters", failure, answer)
    await terminal.call("release", rule)
    await fixture.finish_turn(turn)


@case("terminal.create-invalid-params terminal.create-null-params", "terminal")
async def terminal_param_types(fixture: ClientFixture) -> None:
    """Types in terminal/create: members of wrong types, and null members."""
    rule = "terminal.create-invalid-params"
    turn = await terminal_turn(fixture)
    client = turn.client
    created = fixture.folder / "made.txt"
    base: dict[str, Any] = {"sessionId": client.responder.session, "command": "touch", "args": [str(created)]}
    null_members = dict.fromkeys(("env", "cwd", "outputByteLimit", "args"))
    valid = await client.call(
        "terminal/create", {**base, "command": "true", **null_members}, rule="terminal.create-null-params"
    )
    if valid.ok or fixture.has_action("allow"):
        failure = f"null for all of them gave {valid.summary}"
        fixture.judge("terminal.create-null-params", valid.ok, "null is the default", failure, valid)
    for invalid in (
        {"args": "x"},
        {"args": [1]},
        {"cwd": 5},
        {"outputByteLimit": "1"},
        {"outputByteLimit": -1},
    ):
        answer = await client.call("terminal/create", {**base, **invalid}, rule=rule)
        passed = answer.code == -32602 and not created.exists()
        if passed or not _is_refusal(fixture, answer) or valid.ok:
            failure = f"{invalid} gave {answer.summary}; expected -32602"
            fixture.judge(rule, passed, f"{invalid} gave -32602", failure, answer)
        created.unlink(missing_ok=True)
    if not valid.ok:
        fixture.add_skipped_part(rule, "the other values were not tested: it refuses every terminal")
    await fixture.finish_turn(turn)
