"""An agent in plain JSON lines for the tests of `accord run`. Its first argument is its behavior.

It appends every message that it receives to the file named by HEARD, if that is set.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

BEHAVIOR, *MORE = sys.argv[1:]
CAPABILITIES: dict[str, Any] = {}
OPTIONS = [
    {"optionId": "yes", "name": "Yes, please", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No, thanks", "kind": "reject_once"},
]


def log_message(message: Any) -> None:
    if place := os.environ.get("HEARD"):
        with open(place, "a") as file:
            file.write(json.dumps(message) + "\n")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> Any:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    log_message(message)
    return message


def answer(message: Any, result: Any) -> None:
    send(id=message["id"], result=result)


def fail(message: Any, code: int, text: str, data: Any = None) -> None:
    send(id=message["id"], error={"code": code, "message": text, "data": data})


def update(tag: str, **members: Any) -> None:
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": tag, **members}})


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, **params: Any) -> Any:
    """Send a request to the client and return the response. Other messages are handled later."""
    send(id=f"q-{method}", method=method, params=params)
    while True:
        message = read()
        if message.get("id") == f"q-{method}":
            return message
        pending.append(message)


def permission(call: dict[str, Any], options: Any = None) -> Any:
    given = ask(
        "session/request_permission",
        sessionId="s1",
        toolCall={"toolCallId": "c1", "title": "Do it", **call},
        options=OPTIONS if options is None else options,
    )
    return given["result"]["outcome"]


def starts() -> int:
    """Count the starts of this agent in the file that is its second argument."""
    count = Path(MORE[0])
    count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
    return int(count.read_text())


pending: list[Any] = []


def turn(message: Any) -> None:
    match BEHAVIOR:
        case "echo":
            say(json.dumps(message["params"]["prompt"]))
        case "dies":
            say("half an answ")
            sys.stderr.write("out of memory\n")
            os._exit(7)
        case "dies-first" | "dies-first-two":
            if started == 1:
                sys.stderr.write("stumbled\n")
                sys.stderr.flush()
                os._exit(7)
            say("back again")
        case "dies-first-working":
            if started == 1:
                update("tool_call", toolCallId="c1", title="Half done", kind="edit", status="in_progress")
                os._exit(7)
            say("done twice")
        case "dies-always":
            os._exit(9)
        case "permission":
            call, *rest = (json.loads(text) for text in MORE)
            say(json.dumps(permission(call, *rest)))
        case "permission-with-news":
            call = {"toolCallId": "c1", "title": "Do it"}
            question = {"sessionId": "s1", "toolCall": call, "options": OPTIONS}
            send(id="q", method="session/request_permission", params=question)
            Path(MORE[0]).read_text()  # a pipe: waits until the question is shown
            sys.stdout.write("loading...\n")
            sys.stdout.flush()
            update("notice", severity="info", title="Sandbox", description="ready")
            say("A line\nand a half")
            while (response := read()).get("id") != "q":
                pass
            say(f", then {response['result']['outcome']['optionId']}")
        case "permissions":
            calls = [{"toolCallId": f"c{number}", **json.loads(text)} for number, text in enumerate(MORE)]
            say("\n".join([json.dumps(permission(call)) for call in calls]))
        case "requests":
            for text in MORE:
                asked = json.loads(text)
                response = ask(asked["method"], sessionId="s1", **asked["params"])
                response.pop("jsonrpc")
                response.pop("id")
                say(json.dumps(response) + "\n")
        case "writes-and-runs":
            ask("fs/write_text_file", sessionId="s1", path=MORE[0], content="changed")
            made = ask("terminal/create", sessionId="s1", command="sh", args=["-c", MORE[1]])
            terminal = made["result"]["terminalId"]
            ask("terminal/wait_for_exit", sessionId="s1", terminalId=terminal)
            response = ask("terminal/output", sessionId="s1", terminalId=terminal)
            say(response["result"]["output"])
        case "agreed":
            permission(json.loads(MORE[0]))
            for path in MORE[1:]:
                ask("fs/write_text_file", sessionId="s1", path=path, content="changed")
        case "agreed-to-run":
            permission(json.loads(MORE[0]))
            answers: list[str] = []
            for text in MORE[1:]:
                command, *args = json.loads(text)
                made = ask("terminal/create", sessionId="s1", command=command, args=args)
                answers.append("result" if "result" in made else "error")
            say(" ".join(answers))
        case "environment":
            say(json.dumps({"cwd": os.getcwd(), "env": {name: os.environ.get(name) for name in MORE}}))
        case "deaf":
            say("working")
            while True:
                read()
        case "stuck":
            say("working\n")
            import signal

            while True:
                signal.pause()
        case "busy":
            say("working")
            while read().get("method") != "session/cancel":
                pass
            answer(message, {"stopReason": "cancelled"})
            return
        case "silent":
            while read().get("method") != "session/cancel":
                pass
            answer(message, {"stopReason": "cancelled"})
            return
        case "stops":
            answer(message, {"stopReason": MORE[0]})
            return
        case "fails":
            fail(message, -32603, "no such luck", {"why": "testing"})
            return
        case "wrong-answer":
            answer(message, ["not", "an", "object"])
            return
        case "elicits":
            form = json.loads(MORE[0])
            response = ask("elicitation/create", sessionId="s1", **form)
            say(json.dumps(response.get("result", response.get("error"))))
        case "asks-user":
            response = ask("_agentao.cn/ask_user", sessionId="s1", **json.loads(MORE[0]))
            say(response["result"]["answer"])
        case "hangs-around":
            say("done")
            answer(message, {"stopReason": "end_turn"})
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        case "tidies":
            import signal

            def tidy(number: int, frame: object) -> None:
                Path(MORE[0]).write_text("tidy")
                sys.exit(0)

            signal.signal(signal.SIGTERM, tidy)
            say("done")
            answer(message, {"stopReason": "end_turn"})
            while True:
                signal.pause()
        case "chatters":
            while True:
                say("a line of it\n\n")
        case "steered":
            steering = read()
            say(f"steered by {steering['params']['prompt'][0]['text']}")
            answer(steering, {"outcome": "injected"})
        case "noisy":
            sys.stdout.write("loading...\nloading more...\nstill\nand on\nand on\n")
            sys.stdout.flush()
            say("after the noise")
        case _:
            say(f"{BEHAVIOR}: {message['params']['prompt'][0]['text']}")
    answer(message, {"stopReason": "end_turn"})


def serve(message: Any) -> None:
    method = message.get("method")
    match method:
        case "initialize":
            capabilities = json.loads(os.environ.get("CAPABILITIES", "{}"))
            methods = json.loads(os.environ.get("AUTH_METHODS", "[]"))
            result = {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods}
            steering = {"_meta": {"steering": {"supported": True}}} if BEHAVIOR == "steered" else {}
            answer(message, {**result, "agentInfo": {"name": "odd", "version": "1"}, **steering})
        case "session/new" if BEHAVIOR == "opens-nothing":
            pass
        case "session/new" if BEHAVIOR == "wants-auth":
            fail(message, -32000, "Authentication required", {"reason": "no key"})
        case "session/new":
            settings = json.loads(os.environ.get("SETTINGS", "{}"))
            answer(message, {"sessionId": "s1", **settings})
            if BEHAVIOR == "warns-early":
                update("notice", severity="warning", title="MCP server not used", description="a typo")
        case "session/load" | "session/resume":
            if message["params"]["sessionId"] == "s1":
                if BEHAVIOR == "warns-early":
                    update("notice", severity="info", title="Waiting for the lease of node b2")
                answer(message, {})
            else:
                fail(message, -32002, "Resource not found")
        case "session/list":
            answer(message, {"sessions": json.loads(os.environ.get("SESSIONS", "[]"))})
        case "session/set_mode" | "session/set_config_option":
            answer(message, {} if method == "session/set_mode" else {"configOptions": []})
        case "session/prompt" if BEHAVIOR == "wants-auth-later":
            fail(message, -32000, "Authentication required")
        case "session/prompt":
            turn(message)
        case _ if "id" in message and "method" in message:
            fail(message, -32601, "Method not found")
        case _:
            pass


started = starts() if BEHAVIOR.startswith("dies-first") else 1
if BEHAVIOR == "dies-first-two" and started == 2:
    sys.exit(7)
if place := os.environ.get("PID_FILE"):
    Path(place).write_text(str(os.getpid()))
while True:
    serve(pending.pop(0) if pending else read())
