"""The lists of `/rewind`: which message to go back to, and with what. Imported on first use."""

from typing import TYPE_CHECKING, Any

from accord.errors import AccordError
from accord.frontend.rewind import SCOPE_NAMES, RewindService
from accord.text_width import count_text
from accord.tui.list_screen import ListRow, ListScreen
from accord.tui.theme import app_of

if TYPE_CHECKING:
    from accord.session.rewind import RewindPoint
    from accord.tui.session_view import SessionView


async def choose_point(view: "SessionView", service: RewindService) -> None:
    """Let the user choose a message and what goes back, then go back."""
    points = (await service.points()).points
    if not points:
        view.note("There is no message to go back to yet.")
        return
    rows = [
        ListRow(point, point.title, right=count_text(point.files, "file") if point.files else "")
        for point in points
    ]

    def chosen(point: "RewindPoint | None") -> None:
        if point is not None:
            view.run_worker(_choose_scope(view, service, point), group="rewind")

    app_of(view).push_screen(ListScreen("Go back to before", rows), chosen)


async def _choose_scope(view: "SessionView", service: RewindService, point: "RewindPoint") -> None:
    try:
        files = await service.preview(point.message_id, "files")
    except AccordError as error:
        view.note(f"cannot go back: {error}", "bad")
        return
    rows = [
        ListRow(scope, name, "" if scope == "conversation" else files) for scope, name in SCOPE_NAMES.items()
    ]
    screen = ListScreen(f"Go back to before: {point.title}", rows)
    screen.add_class("small")

    def chosen(scope: Any) -> None:
        if scope is not None:
            view.rewind(lambda service: service.rewind(point.message_id, scope))

    app_of(view).push_screen(screen, chosen)
