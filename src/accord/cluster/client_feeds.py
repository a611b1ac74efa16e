"""The sessions at other nodes that one client follows: it gets their records from the feeds of this node."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.cluster.link_message import AttachedLog
from accord.cluster.message_members import update_body
from accord.cluster.session_feed import FeedCursor, FeedRecord
from accord.errors import StoreError
from accord.gateway.client_connection import ClientConnection, OutgoingFrame
from accord.gateway.client_features import OfferedFeatures
from accord.schema import ToolCall, ToolCallChange

if TYPE_CHECKING:
    from accord.cluster.cluster_router import ClusterRouter

_RESTART: Final = 1012


class ClientFeeds:
    """Where a client is in the logs of its sessions: `FeedClient` of their feeds."""

    def __init__(
        self,
        router: "ClusterRouter",
        connection: ClientConnection,
        features: OfferedFeatures,
        on_own_record: Callable[[str], None],
    ) -> None:
        """`on_own_record` is called with the session when the log has a record that the client wrote."""
        self._router = router
        self._connection = connection
        self._features = features
        self._on_own_record = on_own_record
        self._cursors: dict[str, FeedCursor] = {}

    def cursor(self, log: str) -> FeedCursor | None:
        """How far the client is in a log; None if it does not follow it."""
        return self._cursors.get(log)

    def follow(self, session_id: str, attached: AttachedLog) -> None:
        """Show the client the records of a log from here on."""
        self._cursors[attached.log] = self._router.follow(session_id, attached, self)

    def unfollow(self, log: str) -> None:
        """Show no more records of a log, but the frames that waited for one."""
        cursor = self._cursors.pop(log, None)
        if cursor is not None:
            cursor.feed.detach(cursor)
            cursor.show_held()  # an answer among them would be missed

    def close(self) -> None:
        """Follow nothing more, because the client is gone."""
        for cursor in self._cursors.values():
            cursor.feed.detach(cursor)
        self._cursors.clear()

    # -- called by the feeds

    def on_feed_updates(self, session_id: str, records: list[FeedRecord]) -> None:
        """Show records of a session at another node."""
        frames: list[OutgoingFrame] = []
        for record in records:
            if record.author == self._connection.id:
                self._on_own_record(session_id)
                continue
            for shown in record.updates:
                update, frame = shown
                if shown.is_event and self._features.takes_events:
                    frames.append(frame)
                if shown.is_event or not self._features.wants_update(update):
                    continue
                if isinstance(update, ToolCall | ToolCallChange):
                    adapted = self._features.adapt_call(update)  # the output comes from the session's node
                else:
                    adapted = self._features.adapt(update)
                if adapted is not update:
                    frame = OutgoingFrame(update_body(session_id, adapted))
                frames.append(frame)
        if frames:
            self._connection.send(frames, session_id)

    def on_feed_frame(self, frame: OutgoingFrame, stream: str | None) -> None:
        """Show a frame whose record was shown."""
        self._connection.send([frame], stream)

    def on_feed_lost(self, session_id: str, error: StoreError) -> None:
        """End the connection: the client connects anew and loads the session."""
        self._connection.end(_RESTART, f"the log of session {session_id} cannot be followed; connect again")
