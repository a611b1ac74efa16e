"""Shows a session whose node does not run: its history comes from the log, and nothing can be changed."""

from collections.abc import AsyncGenerator

from accord.cluster.book import ClusterBook
from accord.cluster.link_message import AttachedLog
from accord.cluster.message_members import update_body
from accord.cluster.session_index import IndexEntry
from accord.errors import NotFound
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.client_features import OfferedFeatures
from accord.schema import LoadSessionResponse, SessionInfoUpdate
from accord.session import SessionOpened


class StoredSession:
    """Reads one session for one client. `bodies` comes first, then the other members are known."""

    def __init__(
        self, book: ClusterBook, entry: IndexEntry, rights: TokenRights, features: OfferedFeatures
    ) -> None:
        """Raises RpcError if the token does not cover it."""
        if rights.session not in ("", entry.session_id):
            raise NotFound("session not found", {"sessionId": entry.session_id})
        check_folders(rights, entry.summary.cwd, *entry.summary.additional_directories)
        self._entry = entry
        self._features = features
        self._reader = book.read_stored(entry)

    async def bodies(self) -> AsyncGenerator[list[bytes]]:
        """The notifications of the history, page by page, as this client can show it. Raises StoreError."""
        session_id = self._entry.session_id
        while page := await self._reader.page():
            yield [
                body
                for event in page
                for body in self._features.history_bodies(session_id, event, self._reader)
            ]
        if self._entry.summary.title:
            yield [update_body(session_id, SessionInfoUpdate(title=self._entry.summary.title))]

    @property
    def response(self) -> LoadSessionResponse:
        """The answer to `session/load`."""
        settings = self._reader.state.settings.with_settings(SessionOpened(self._entry.session_id))
        response = LoadSessionResponse(modes=settings.modes, config_options=settings.config_options)
        return self._features.adapt(response)

    @property
    def attached(self) -> AttachedLog:
        """Where the feed goes on."""
        place = self._reader.place
        return AttachedLog(self._entry.log, self._entry.stream, place[0], place)
