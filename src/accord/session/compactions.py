"""Compactions: the agent shortened its context, and may say what it kept."""

from typing import Any, Final

from accord.schema import UNSET, CompactionStatus, CompactionUpdate
from accord.session.content import Body

IN_PROGRESS: Final = "in_progress"


class CompactionState(Body):
    """One compaction; the blocks are its summary. A status unknown to this version is kept as it came."""

    __slots__ = ("compaction_id", "error", "meta", "status")

    def __init__(self, compaction_id: str, status: CompactionStatus = IN_PROGRESS) -> None:
        super().__init__()
        self.compaction_id = compaction_id
        self.status: CompactionStatus = status
        self.error: str | None = None
        self.meta: dict[str, Any] | None = None

    def apply(self, patch: CompactionUpdate) -> None:
        """Omitted keeps, null clears, a value replaces."""
        self.status = patch.status
        if patch.summary is not UNSET:
            self.replace(patch.summary or ())
        if patch.error is not UNSET:
            self.error = patch.error
        if patch.meta is not UNSET:
            self.meta = patch.meta

    def whole(self) -> CompactionUpdate:
        """The one update that says all of it."""
        return CompactionUpdate(
            compaction_id=self.compaction_id,
            status=self.status,
            summary=list(self.blocks),
            error=UNSET if self.error is None else self.error,
            meta=UNSET if self.meta is None else self.meta,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactionState) and self.whole() == other.whole()

    __hash__ = None  # type: ignore[assignment]  # it grows
