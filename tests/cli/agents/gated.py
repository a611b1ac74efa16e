"""An agent that requires sign-in, written in plain JSON lines.

`GATED_METHODS` holds its sign-in methods as JSON. `GATED_STATE` is a file that exists while the user is
signed in. `GATED_LOG` is a file for its start arguments and the calls it receives. With `--login` it asks for
a password on its terminal; the right one is `sesame`.
"""

import json
import os
import signal
import sys
from typing import Any

STATE = os.environ["GATED_STATE"]


def log(entry: dict[str, Any]) -> None:
    with open(os.environ["GATED_LOG"], "a") as file:
        file.write(json.dumps(entry) + "\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def sign_in() -> None:
    with open(STATE, "w"):
        pass


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    log({"method": method, "params": params})
    if method == "initialize":
        auth = {} if os.environ.get("GATED_NO_LOGOUT") else {"logout": {}}
        methods = json.loads(os.environ["GATED_METHODS"])
        result = {"protocolVersion": 1, "authMethods": methods, "agentCapabilities": {"auth": auth}}
        send({"id": id, "result": result})
    elif method == "authenticate":
        if params["methodId"] == "web":
            address = {"requestId": id, "mode": "url", "elicitationId": "e1", "message": "Sign in there",
                       "url": "https://login.example/start"}  # fmt: skip
            send({"id": "ask", "method": "elicitation/create", "params": address})
            if read().get("result", {}).get("action") != "accept":
                send({"id": id, "error": {"code": -32603, "message": "The page was not opened"}})
                return
        sys.stderr.write("your code is \x1b[1mABCD-1234\x1b[0m\n")
        sys.stderr.flush()
        sign_in()
        send({"id": id, "result": {}})
    elif method == "logout":
        os.unlink(STATE)
        send({"id": id, "result": {}})
    elif method == "session/new" and not os.path.exists(STATE):
        send({"id": id, "error": {"code": -32000, "message": "Authentication required"}})
    elif method == "session/new":
        send({"id": id, "result": {"sessionId": "s1"}})
    elif method == "session/prompt":
        send({"id": id, "result": {"stopReason": "end_turn"}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


log({"started": sys.argv[1:], "flavour": os.environ.get("FLAVOUR"), "pid": os.getpid()})
if "--login" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.write("Password? ")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != "sesame":
        sys.exit(3)
    sign_in()
    sys.exit(0)
while True:
    serve(read())
