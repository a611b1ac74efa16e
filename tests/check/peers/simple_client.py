"""A minimal client on the standard library: `good`, `wrong`, `crashes`, `floods`, `hangs` or `refuses`.

Usage: simple_client.py BEHAVIOR PROMPT [OPTION ...] -- AGENT [ARGUMENT ...]. With `hangs`, it writes its
process ids to the file PROMPT.
"""

import json
import os
import signal
import subprocess
import sys


def main(behavior: str, prompt: str, command: list[str]) -> None:
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    if behavior == "hangs":
        with open(prompt, "a") as file:
            file.write(f"{os.getpid()} {agent.pid}\n")
    agent_input, agent_output = agent.stdin, agent.stdout

    def send(**message: object) -> None:
        agent_input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        agent_input.flush()

    def ask(number: int, method: str, **params: object) -> dict[str, object]:
        send(id=number, method=method, params=params)
        while line := agent_output.readline():
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message["result"]
            while "id" in message and behavior == "floods":
                send(method="session/cancel", params={"sessionId": "check-1"})
            if "id" in message:
                code = -32000 if behavior == "wrong" else -32601
                if message["method"] in ("terminal/create", "fs/read_text_file") and behavior == "refuses":
                    code = -32602 if message["params"].get("args") in ("x", [1]) else -32603
                send(id=message["id"], error={"code": code, "message": "no such method"})
            elif message["params"].get("update", {}).get("sessionUpdate") == "agent_message_chunk":
                sys.stdout.write(message["params"]["update"]["content"].get("text", ""))
                sys.stdout.flush()
            elif behavior == "crashes" and message["params"].get("update", {}).get("sessionUpdate") == "zzz":
                os.kill(os.getpid(), signal.SIGABRT)
        sys.exit("the agent is gone")

    offered: dict[str, object] = {"terminal": True, "fs": {"readTextFile": True}}
    ask(
        1,
        "initialize",
        protocolVersion=1,
        clientInfo={"name": "simple", "version": "1"},
        **({"clientCapabilities": offered} if behavior == "refuses" else {}),
    )
    session = ask(2, "session/new", cwd=os.getcwd(), mcpServers=[])["sessionId"]
    ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": prompt}])
    if behavior == "hangs":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    agent_input.close()
    agent.wait()


if __name__ == "__main__":
    place = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2], sys.argv[place + 1 :])
