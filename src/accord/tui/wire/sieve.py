"""Which messages are shown: all words of the filter have to be in a message, `>` is what was sent, `<` what came, `!` what failed."""

from accord.trace import Seen


class Sieve:
    """One filter. What it found of a message is remembered: messages are long, and the list is drawn often."""

    def __init__(self, text: str = "") -> None:
        words = text.casefold().split()
        self._without = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
        self._signs = [word for word in words if word in (">", "<", "!")]
        self._with = [word for word in words if word not in self._signs and not word.startswith("-")]
        self._known: dict[int, bool] = {}

    def wants(self, seen: Seen) -> bool:
        """Whether this one is to be shown."""
        found = self._known.get(seen.number)
        if found is None:
            found = self._known[seen.number] = self._judged(seen)
        return found

    def _judged(self, seen: Seen) -> bool:
        for sign in self._signs:
            if not {
                ">": seen.sender == "client",
                "<": seen.sender == "agent",
                "!": seen.kind in ("error", "noise", "cut", "stderr"),
            }[sign]:
                return False
        if not self._with and not self._without:
            return True
        head = f"{seen.method} {seen.kind} {seen.session} {seen.id} {seen.sender}".casefold()
        if any(word in head for word in self._without):
            return False
        missing = [word for word in self._with if word not in head]
        if not missing:
            return True
        body = seen.entry.text.casefold()  # as it is shown: a secret is not found
        return all(word in body for word in missing)
