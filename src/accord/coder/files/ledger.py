"""Which files the model has read, and what was in them: nothing is overwritten that it does not know."""

from typing import Literal

from accord.coder.files.place import Place

Standing = Literal["same", "changed", "unread"]


class ReadLedger:
    """The digests of texts as the model last saw or wrote them, by real path."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def note(self, place: Place, digest: str) -> None:
        """The model knows this text now."""
        self._digests[place.real] = digest

    def standing(self, place: Place, digest: str) -> Standing:
        """Whether the text is still the one that the model knows."""
        known = self._digests.get(place.real)
        if known is None:
            return "unread"
        return "same" if known == digest else "changed"

    def forget(self, place: Place) -> None:
        """The file is gone."""
        self._digests.pop(place.real, None)

    def moved(self, source: Place, destination: Place) -> None:
        """The file has another name now; so have those below it, if it is a folder."""
        below = source.real.rstrip("/") + "/"
        for real, digest in list(self._digests.items()):
            if real == source.real:
                self._digests[destination.real] = self._digests.pop(real)
            elif real.startswith(below):
                self._digests[f"{destination.real}/{real[len(below) :]}"] = digest
                del self._digests[real]
