"""`accord cluster`: shows the nodes and streams of a cluster, and checks what its promises need.

Imported on first use: it loads accord.cluster.
"""

import asyncio
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from accord.cli.command_parser import Parser, find_subcommand, json_text, print_table
from accord.cli.exit_codes import FAILED
from accord.cli.serve_command import cluster_settings, settings_file
from accord.errors import UsageError
from accord.safe_text import visible
from accord.schema.codec import to_builtins
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.cluster.cluster_report import ClusterReport
    from accord.cluster.link_message import DrainAnswer
    from accord.cluster.settings import ClusterSettings


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand of `accord cluster` and return the exit code."""
    name = find_subcommand("accord cluster", _COMMANDS, arguments)
    if name is None:
        return 0 if arguments else 2
    return _COMMANDS[name][1](arguments[1:])


def _status(arguments: Sequence[str]) -> int:
    parser = _parser("status")
    parser.option("--json", "print one JSON object")
    options = parser.parse_args(arguments)
    report = _report(options)
    if options.json:
        print(json_text(to_builtins(report)))
        return 0
    print(
        f"Cluster {report.prefix} at {', '.join(report.servers)} (NATS {report.server_version}): "
        f"{count_text(len(report.nodes), 'node')}, {count_text(report.sessions, 'session')}."
    )
    if report.nodes:
        print()
        rows = [("NODE", "STATE", "RENEWED", "SESSIONS", "AGENTS", "VERSION")]
        for node in report.nodes:
            renewed = "-" if node.renewed_seconds is None else f"{node.renewed_seconds:.0f} s ago"
            agents = ", ".join(map(visible, node.agents)) or "-"
            rows.append((node.node, node.state, renewed, str(node.sessions), agents, visible(node.version)))
        print_table(rows)
    print()
    print(_streams_line(report))
    _print_findings(report)
    return 0


def _streams_line(report: "ClusterReport") -> str:
    leaders = sorted({stream.leader for stream in report.streams if stream.leader})
    limited = [stream for stream in report.streams if stream.max_bytes is not None]
    fullest = max(limited, key=lambda stream: stream.percent, default=None)
    line = count_text(len(report.streams), "stream")
    if leaders:
        line += f", led by {', '.join(map(visible, leaders))}"
    if fullest is not None:
        line += f"; the fullest, {fullest.name}, has {fullest.percent} % of its limit"
    return line + "."


def _check(arguments: Sequence[str]) -> int:
    report = _report(_parser("check").parse_args(arguments))
    if report.findings:
        _print_findings(report)
        return FAILED
    replicas = min((stream.replicas for stream in report.streams), default=0)
    print(
        f"Nothing found: {count_text(len(report.streams), 'stream')} with {count_text(replicas, 'replica')} "
        "each, all current; every server has `sync_interval: always`."
    )
    return 0


def _print_findings(report: "ClusterReport") -> None:
    for finding in report.findings:
        print(f"- {visible(finding)}")


def _drain(arguments: Sequence[str]) -> int:
    parser = _parser("drain")
    parser.add_argument("node", metavar="NODE", help="name of the node, see `accord cluster status`")
    parser.option("--undo", "let the node take sessions again")
    parser.option("--wait SECONDS", "how long to wait for running turns (default: 60)", default="60")
    options = parser.parse_args(arguments)
    try:
        seconds = float(options.wait)
    except ValueError:
        raise UsageError(f"--wait {options.wait!r} is not a number of seconds") from None
    settings = _settings(options)
    from accord.cluster.cluster_access import drain_node
    from accord.cluster.link_message import DrainAnswer

    node = visible(options.node)

    def progress(answer: DrainAnswer) -> None:
        print(f"Node {node} has {count_text(answer.sessions, 'open session')} and {_turns(answer)}; waiting.")

    answer = asyncio.run(
        drain_node(settings, options.node, undo=options.undo, seconds=seconds, progress=progress)
    )
    if options.undo:
        print(f"Node {node} takes sessions again.")
        return 0
    if answer.sessions:
        print(f"Node {node} still has {count_text(answer.sessions, 'open session')} and {_turns(answer)}.")
        return FAILED
    print(f"Node {node} has given its sessions up and takes no new ones. It can be stopped.")
    return 0


def _turns(answer: "DrainAnswer") -> str:
    return count_text(answer.turns, "running turn")


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "status": ("show the nodes, their leases and the streams", _status),
    "check": (
        "check replicas, limits and sync_interval; exit code 1 if something is wrong",
        _check,
    ),
    "drain": ("make a node give its sessions up, before it is stopped", _drain),
}


def _parser(name: str) -> Parser:
    parser = Parser(f"accord cluster {name}", _COMMANDS[name][0])
    parser.option("--cluster URL", "NATS servers (default: those of serve.json)")
    return parser


def _report(options: Namespace) -> "ClusterReport":
    """Read the state of the cluster. Raises UsageError with one clear line."""
    settings = _settings(options)
    from accord.cluster.cluster_access import cluster_report

    return asyncio.run(cluster_report(settings))


def _settings(options: Namespace) -> "ClusterSettings":
    settings = cluster_settings(options.cluster)
    if settings is None:
        raise UsageError(
            f"no NATS servers are named; pass --cluster URL, or put them into {settings_file()} as `cluster`"
        )
    return settings
