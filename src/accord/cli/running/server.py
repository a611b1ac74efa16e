"""Which agent a run is with."""

from accord.cli.chosen import chosen_server
from accord.cli.running.arguments import Arguments
from accord.client.servers import Server


def find_server(given: Arguments) -> Server:
    """The agent. May ask whether a project's file counts. Raises UsageError."""
    if given.remote is not None:
        from accord.cli.remote import server_at

        return server_at(given.remote)
    return chosen_server(given.agent, given.command, given.cwd, trust=given.trust)
