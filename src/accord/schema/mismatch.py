"""The one error of reading: a value that does not have the shape of its type."""


class Mismatch(ValueError):
    """A value does not have the shape of its type. `path` says where, `reason` what is wrong there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
