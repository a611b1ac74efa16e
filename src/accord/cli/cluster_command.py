"""`accord cluster`: shows, checks, drains, repairs, saves and restores the nodes and streams of a cluster.

Imported on first use: it loads accord.cluster.
"""

import asyncio
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.command_parser import Parser, find_subcommand, json_text, print_table
from accord.cli.exit_codes import FAILED
from accord.cli.serve_command import cluster_settings, parse_duration, settings_file
from accord.errors import UsageError
from accord.frontend.transcript import SessionListEntry, StoredTranscript, transcript_json, write_new_file
from accord.safe_text import visible
from accord.schema.codec import to_builtins
from accord.store.session_summary import now_micros
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.cluster.cluster_repair import RebuildReport
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
        has_labels = any(node.labels for node in report.nodes)
        rows = [("NODE", "STATE", "RENEWED", "SESSIONS", "AGENTS", "VERSION", *["LABELS"] * has_labels)]
        for node in report.nodes:
            renewed = "-" if node.renewed_seconds is None else f"{node.renewed_seconds:.0f} s ago"
            agents = ", ".join(map(visible, node.agents)) or "-"
            labels = ", ".join(f"{visible(name)}={visible(text)}" for name, text in node.labels.items())
            cells = (visible(node.node), node.state, renewed, str(node.sessions), agents)
            rows.append((*cells, visible(node.version), *[labels] * has_labels))
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


def _rebuild(arguments: Sequence[str]) -> int:
    settings = _settings(_parser("rebuild").parse_args(arguments))
    from accord.cluster.cluster_access import cluster_streams
    from accord.cluster.cluster_repair import rebuild_index

    async def rebuild() -> "RebuildReport":
        async with cluster_streams(settings) as streams:
            return await rebuild_index(streams)

    return _print_rebuild(asyncio.run(rebuild()))


def _print_rebuild(report: "RebuildReport") -> int:
    print(
        f"{count_text(report.sessions, 'session log')} read; "
        f"{report.written} written to the session list, {report.removed} removed from it."
    )
    for problem in report.problems:
        print(f"- {visible(problem)}")
    return FAILED if report.problems else 0


def _expire(arguments: Sequence[str]) -> int:
    parser = _parser("expire")
    parser.option("--older DURATION", "how long a session was not used, such as 180d", required=True)
    parser.option("--to DIR", "folder for the exported sessions, one JSON file each", required=True)
    options = parser.parse_args(arguments)
    before = now_micros() - int(parse_duration("--older", options.older) * 1_000_000)
    settings = _settings(options)
    folder = Path(options.to).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"--to {options.to!r}: cannot create the folder ({error.strerror})") from None
    from accord.cluster.cluster_access import cluster_streams
    from accord.cluster.cluster_repair import ExpiredSession, expire_sessions

    async def export(session: ExpiredSession) -> None:
        entry = SessionListEntry.from_recording(session.entry.recorded)
        document = transcript_json(StoredTranscript(entry, session.state, "recorded"))
        path = folder / f"{session.entry.log}.json"
        path.unlink(missing_ok=True)  # of an attempt that was interrupted
        write_new_file(str(path), json_text(document) + "\n", "--to ")

    async def expire() -> tuple[int, list[str]]:
        async with cluster_streams(settings) as streams:
            return await expire_sessions(streams, before, export)

    deleted, kept = asyncio.run(expire())
    if deleted:
        sessions = f"{count_text(deleted, 'session')} {'was' if deleted == 1 else 'were'}"
        print(f"{sessions} exported to {folder} and deleted.")
    else:
        print("No session was deleted.")
    for problem in kept:
        print(f"- {visible(problem)}")
    return 0


def _backup(arguments: Sequence[str]) -> int:
    parser = _parser("backup")
    parser.add_argument("folder", metavar="DIR", help="new folder for the backup")
    options = parser.parse_args(arguments)
    settings = _settings(options)
    from accord.cluster.cluster_access import save_backup

    manifest = asyncio.run(save_backup(settings, Path(options.folder).expanduser()))
    size = sum(stream.bytes for stream in manifest.streams)
    print(f"{count_text(len(manifest.streams), 'stream')} saved to {options.folder} ({size} bytes).")
    return 0


def _restore(arguments: Sequence[str]) -> int:
    parser = _parser("restore")
    parser.add_argument("folder", metavar="DIR", help="folder of the backup")
    options = parser.parse_args(arguments)
    settings = _settings(options)
    from accord.cluster.cluster_access import restore_backup

    manifest, report = asyncio.run(restore_backup(settings, Path(options.folder).expanduser()))
    print(f"{count_text(len(manifest.streams), 'stream')} restored. Start the nodes now.")
    return _print_rebuild(report)


def _turns(answer: "DrainAnswer") -> str:
    return count_text(answer.turns, "running turn")


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "status": ("show the nodes, their leases and the streams", _status),
    "check": (
        "check replicas, limits and sync_interval; exit code 1 if something is wrong",
        _check,
    ),
    "rebuild": ("write what the session list lacks, computed from the session logs", _rebuild),
    "expire": ("export and delete the sessions that were not used for long", _expire),
    "backup": ("save all streams to a new folder", _backup),
    "restore": ("create a cluster from a backup, at servers without one", _restore),
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
