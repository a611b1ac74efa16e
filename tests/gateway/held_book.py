"""A book whose commits the test controls: slow ones, and ones that fail."""

from accord.errors import StoreError
from accord.gateway.session_log import FileBook
from accord.store import MemoryStore


class HeldBook(FileBook):
    """Commits at once, until a test holds it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())

    def hold(self) -> None:
        """Begin commits, but do not end them."""
        self.uncommitted = True

    def release(self) -> None:
        """End the commits that were begun, and all later ones at once."""
        self.uncommitted = False
        self.commit()

    def fail(self, reason: str) -> None:
        """Fail the commits that were begun. Their records are lost."""
        unwritten, self._unwritten = self._unwritten, []
        for log in unwritten:
            log.drop_pending()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(StoreError(reason))

    def commit(self) -> None:
        if not self.uncommitted:
            super().commit()
