"""A web address that the agent wants opened: shown in full, its host made plain. Nothing is opened here."""

from accord.cleaning import clean_text
from accord.client import DECLINED, Address
from accord.tui.dialogs.choosing import ChoosingDialog
from accord.tui.dialogs.permission import AboutItem
from accord.tui.parts.judged import JudgedPart


class AddressDialog(ChoosingDialog):
    """True: the user opens it; DECLINED: they do not want to."""

    def __init__(self, address: Address) -> None:
        parts = [JudgedPart(clean_text(address.message)), JudgedPart(address.url, strong=True)]
        warning = ": its name is in another script than it may look like" if address.punycode else ""
        parts.append(JudgedPart(f"at {address.host}{warning}"))
        names = ("I open it in my browser", "No")
        super().__init__(f"{address.agent} asks you to open an address", [AboutItem(parts)], names)

    def choose(self, index: int) -> None:
        self.settle(True if index == 0 else DECLINED)
