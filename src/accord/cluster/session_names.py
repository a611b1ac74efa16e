"""The ids of new sessions: two agents that count their sessions use the same ones.

The first session keeps the id of its agent. A later one, at another node, becomes `<id>~<node>`.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from accord.cluster.log_writer import SessionMoved
from accord.errors import InvalidRequest

if TYPE_CHECKING:
    from accord.cluster.book import ClusterBook
    from accord.cluster.cluster_log import ClusterLog

_MAX_NAMESAKES: Final = 1000


class ClusterNames:
    """Names the sessions of one node: `SessionNames` of `accord.gateway.contracts`."""

    def __init__(self, book: "ClusterBook") -> None:
        self._book = book
        self._reserved: dict[tuple[str, str], ClusterLog] = {}

    async def reserve(self, agent: str, own_id: str, cwd: str, additional_folders: Iterable[str]) -> str:
        book, folders = self._book, tuple(additional_folders)
        book.check_lease(own_id)
        for session_id in self._candidates(own_id):
            entry = book.index.find(agent, session_id)
            if entry is not None and entry.node != book.node:
                continue
            agent_id = "" if session_id == own_id else own_id
            log, patch = book.new_log(agent, session_id, cwd, folders, agent_id)
            try:
                await log.register(replaced=entry)
            except SessionMoved:
                book.forget(log)
                await book.index.refresh()
                continue
            except BaseException:
                book.forget(log)
                raise
            log.create(patch)
            self._reserved[agent, session_id] = log
            return session_id
        raise InvalidRequest(f"too many sessions have the id {own_id} of agent {agent}")

    def _candidates(self, own_id: str) -> Iterator[str]:
        yield own_id
        renamed = f"{own_id}~{self._book.node}"
        yield renamed
        for number in range(2, _MAX_NAMESAKES):
            yield f"{renamed}~{number}"

    def take_reserved(self, agent: str, session_id: str) -> "ClusterLog | None":
        """The log that was created for this session; None if there is none."""
        return self._reserved.pop((agent, session_id), None)

    def own_id(self, agent: str, session_id: str) -> str:
        entry = self._book.index.find(agent, session_id)
        return session_id if entry is None else entry.agent_id or session_id

    def renamed(self, agent: str) -> dict[str, str]:
        return {
            entry.agent_id: entry.session_id
            for entry in self._book.index
            if entry.agent_id and entry.agent == agent and entry.node == self._book.node
        }
