"""Agents that complete the handshake, open sessions, and then misbehave in one way.

Usage: odd_agent.py BEHAVIOR [FILE]. Writes its process id to FILE.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

INFO = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "odd", "version": "1"}}
logs: dict[str, list[str]] = {}
running: list[Any] = []
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "again and again"}}


def put(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(update: dict[str, Any], session: str = "s") -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": session, "update": update}}


def chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def log(session: str) -> list[str]:
    """The texts of the user and the agent in a session of this process, by turns."""
    return logs.setdefault(session, [])


def unknown(message: dict[str, Any]) -> dict[str, Any]:
    return {"id": message["id"], "error": {"code": -32002, "message": "unknown session"}}


def initialize_result(behavior: str) -> dict[str, Any]:
    kind = {"names_variables": "env_var", "names_passwords": "password"}.get(behavior)
    key = {"type": kind, "id": "key", "name": "Key", "vars": [{"name": "KEY"}]}
    loads = behavior in ("warns", "loses_text")
    return {
        **INFO,
        "agentCapabilities": {
            **({"loadSession": True} if loads else {}),
            **({"sessionCapabilities": {"close": {}}} if behavior == "ends_turns_by_itself" else {}),
        },
        **({"authMethods": [key]} if kind else {}),
    }


def crashes(message: dict[str, Any]) -> None:
    sys.exit(f"what is {message['method']}?")


def floods(message: dict[str, Any]) -> None:
    """Send updates without end, and never the answer."""
    lines = (json.dumps({"jsonrpc": "2.0", **update(CHUNK)}) + "\n") * 100
    while True:
        sys.stdout.write(lines)


def floods_requests(message: dict[str, Any]) -> None:
    """Send requests without end."""
    number = 0
    while True:
        number += 1
        put({"id": f"q{number}", "method": "terminal/create", "params": {"sessionId": "s", "command": "x"}})


def answers_too_long(message: dict[str, Any]) -> None:
    """Send an answer that is too long to be read."""
    sys.stdout.write(
        json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"x": "y" * (65 << 20)}}) + "\n"
    )
    sys.stdout.flush()


def nests_deeply(message: dict[str, Any]) -> None:
    """Send an answer with a hundred thousand levels."""
    deep = "[" * 100_000 + "]" * 100_000
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{{"x":{deep}}}}}\n')
    sys.stdout.flush()


def sends_invalid_plans(message: dict[str, Any]) -> None:
    """Send a plan that is not a list in every turn."""
    if message["method"] == "session/prompt":
        put(update({"sessionUpdate": "plan", "entries": 5}))
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        rejects(message)


def rejects(message: dict[str, Any]) -> None:
    put({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def hangs(message: dict[str, Any]) -> None:
    """Never answer a prompt, and keep running after the end of the input."""
    if message["method"] != "session/prompt":
        rejects(message)


def answers_without_id(message: dict[str, Any]) -> None:
    """Answer a negative id, and a prompt with a lone surrogate, like a line that is not JSON."""
    if message["id"] == -7 or "\\ud83d" in json.dumps(message):
        put({"error": {"code": -32700, "message": "Parse error"}})
    elif message["method"] == "session/prompt":
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        rejects(message)


def ends_busy_turns(message: dict[str, Any]) -> None:
    """Start a tool, answer a second prompt at once, and end the first by itself before it is canceled."""
    if message["method"] != "session/prompt":
        rejects(message)
    elif message["id"] not in running and not running:
        running.append(message["id"])
        call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "sleep", "status": "in_progress"}
        put(update(call, message["params"]["sessionId"]))
    else:
        for id in (running.pop(), message["id"]):
            put({"id": id, "result": {"stopReason": "end_turn"}})


def ends_turns_by_itself(message: dict[str, Any]) -> None:
    """Start a tool, and end the turn by itself a moment later."""
    if message["method"] == "session/prompt":
        call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "sleep", "status": "in_progress"}
        put(update(call, message["params"]["sessionId"]))
        time.sleep(0.05)
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
    elif message["method"] == "session/close":
        put({"id": message["id"], "result": {}})
    elif "id" in message:
        rejects(message)


def holds_prompts(message: dict[str, Any]) -> None:
    """Hold a second prompt, and answer it as if it was not canceled."""
    if message["method"] == "session/cancel":
        first, *held = running
        put({"id": first, "result": {"stopReason": "cancelled"}})
        for id in held:
            put({"id": id, "result": {"stopReason": "end_turn"}})
        running.clear()
    elif message["method"] != "session/prompt":
        rejects(message)
    else:
        running.append(message["id"])
        call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "sleep", "status": "in_progress"}
        put(update(call, message["params"]["sessionId"]))


def warns(message: dict[str, Any]) -> None:
    """Put a warning before every answer of the model; replay the conversation without it."""
    params = message["params"]
    if message["method"] == "session/prompt":
        text = params["prompt"][0]["text"].rpartition(": ")[2]
        put(update(chunk("agent_message_chunk", "The model is unknown. "), params["sessionId"]))
        put(update(chunk("agent_message_chunk", text), params["sessionId"]))
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
        log(params["sessionId"]).extend([params["prompt"][0]["text"], text])
    elif message["method"] == "session/load":
        for number, text in enumerate(log(params["sessionId"])):
            kind = "agent_message_chunk" if number % 2 else "user_message_chunk"
            put(update(chunk(kind, text), params["sessionId"]))
        put({"id": message["id"], "result": {}} if log(params["sessionId"]) else unknown(message))
    else:
        rejects(message)


def loses_text(message: dict[str, Any]) -> None:
    """Like `warns`, but replay only the warning."""
    if message["method"] == "session/load" and log(message["params"]["sessionId"]):
        told = log(message["params"]["sessionId"])
        told[1::2] = ["The model is unknown. "] * (len(told) // 2)
    warns(message)


def names_variables(message: dict[str, Any]) -> None:
    """`initialize` has auth methods of type `env_var`, which were official for a while."""
    rejects(message)


def answers_batches(message: dict[str, Any]) -> None:
    """Answer a batch with an array of answers, as JSON-RPC wants it."""
    rejects(message)


def sends_batches(message: dict[str, Any]) -> None:
    """React to a batch with a batch of its own."""
    rejects(message)


def names_passwords(message: dict[str, Any]) -> None:
    """`initialize` has an auth method of a type that was never official."""
    rejects(message)


def reads_chunks(message: dict[str, Any]) -> None:
    """Treat the result of one read as a line."""
    rejects(message)


def chunks() -> Iterator[str]:
    while data := os.read(0, 1 << 20):
        yield data.decode("utf-8", "replace")


BEHAVIORS: dict[str, Callable[[dict[str, Any]], None]] = {
    one.__name__: one
    for one in (
        crashes,
        floods,
        floods_requests,
        answers_too_long,
        nests_deeply,
        sends_invalid_plans,
        rejects,
        hangs,
        reads_chunks,
        answers_without_id,
        ends_busy_turns,
        ends_turns_by_itself,
        holds_prompts,
        warns,
        loses_text,
        names_variables,
        names_passwords,
        answers_batches,
        sends_batches,
    )
}


def main(behavior: str, pid_file: str) -> None:
    if pid_file:
        with open(pid_file, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    opened = 0
    for line in chunks() if behavior == "reads_chunks" else sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, list) and message and behavior in ("answers_batches", "sends_batches"):
            answers = [{"jsonrpc": "2.0", "id": item["id"], "result": {}} for item in message]
            call = {"jsonrpc": "2.0", **update(CHUNK, "s1")}
            sys.stdout.write(json.dumps(answers if behavior == "answers_batches" else [call]) + "\n")
            sys.stdout.flush()
        if not isinstance(message, dict) or "method" not in message:
            continue
        if "id" not in message and (behavior, message["method"]) != ("holds_prompts", "session/cancel"):
            continue
        if message["method"] == "initialize":
            put({"id": message["id"], "result": initialize_result(behavior)})
        elif message["method"] == "session/new" and behavior != "crashes":
            opened += 1
            put({"id": message["id"], "result": {"sessionId": f"s{opened}"}})
        else:
            BEHAVIORS[behavior](message)
    while behavior == "hangs":
        os.read(os.pipe()[0], 1)


if __name__ == "__main__":
    main(sys.argv[1], "".join(sys.argv[2:3]))
