"""`accord check`: does an agent, or a client, follow the protocol?"""

from collections.abc import Sequence
from typing import Any, Final

from accord.cli.parser import Parser
from accord.errors import UsageError

_USAGE: Final = """usage: accord check agent [--only RULES] [--skip RULES] [--need RULES] [--script FILE] [--json] [--junit FILE]
                          [--html FILE] [--slow X] [--jobs N] [--verbose | --quiet] -- COMMAND ...
       accord check client [the same] -- COMMAND ... {agent} ...
       accord check rules [agent | client] [--json]

  agent    hold an agent to the rules of the protocol: COMMAND starts it, on stdio
  client   hold a client to them: COMMAND starts it, with the agent's command at {agent} and the prompt at {prompt}
  rules    the rules an agent or a client is held to, and how each is tried

accord check agent --help and accord check client --help tell more."""


def main(arguments: Sequence[str]) -> int:
    """Run one of them."""
    words = list(arguments)
    name = words[0] if words else ""
    match name:
        case "agent" | "client":
            from accord.cli.check_run import main as check

            return check(name, words[1:])
        case "rules":
            return _rules(words[1:])
        case "" | "-h" | "--help" | "help":
            print(_USAGE)
            return 0 if words else 2
        case _:
            raise UsageError(f"there is no {name!r}; there are: agent, client, rules")


def _rules(words: list[str]) -> int:
    parser = Parser("accord check rules", "The rules an agent or a client is held to, and how each is tried.")
    parser.add_argument(
        "kind", nargs="?", choices=("agent", "client"), default="agent", help="whose rules (agent)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(words)

    from accord.check.verdict import subject_of
    from accord.schema.rules import BASES

    rules, scenes, untried = _kit(options.kind)
    rows: list[dict[str, Any]] = []
    for rule in rules:
        subject = subject_of(str(rule))
        row = {
            "id": subject.id,
            "level": subject.level,
            "stable": subject.stable,
            "source": BASES[subject.basis],  # pyright: ignore[reportArgumentType]
            "rule": subject.text,
            "how": subject.how,
            "scenes": [f"{scene.name}: {scene.about}" for scene in scenes if rule in scene.rules],
        }
        rows.append(row | ({"untried": untried[rule]} if rule in untried else {}))
    if options.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        how = "; ".join(row["scenes"]) or f"not tried: {row['untried']}"
        print(f"{row['id']:>6}  {row['level']:<6}  {row['rule']}\n{'':16}by {row['source']}\n{'':16}{how}")
    return 0


def _kit(kind: str) -> tuple[Sequence[Any], Sequence[Any], dict[Any, str]]:
    """The rules, the scenes, and what is not tried."""
    if kind == "agent":
        from accord.check.agent import scenes as agents
        from accord.check.agent.run import agent_rules

        return agent_rules(), agents.scenes(), dict(agents.UNTRIED)
    from accord.check.client import scenes as clients
    from accord.check.client.run import client_rules

    return client_rules(), clients.scenes(), dict(clients.UNTRIED)
