"""Handles keys in the order in which they were pressed, also when many come at once.

Loaded before the first paint: keep the client out.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.tui.theme import app_of

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget

_MAX_STEPS: Final = 50


async def keys_handled(focused: "Widget") -> None:
    """Let a widget handle the keys that it already has. Call it before the bindings of the app see a key.

    Ctrl+C directly after a letter would find an empty prompt, and quit.
    """
    for _ in range(_MAX_STEPS):
        if not focused.message_queue_size:
            break
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the last one may have left the queue, but not be handled


async def run_own_binding(field: "Widget", event: "events.Key") -> None:
    """Handle a key that a text field itself has a binding for. Call it first in `_on_key`.

    Textual looks up bindings after a key has gone through all parents of the widget. Letters that came
    together with it, as on a slow link, would be typed first: `abx`, Backspace, `c` would become `abx`.
    """
    own: Any = field._bindings  # pyright: ignore[reportPrivateUsage] - Textual has no other way
    bindings = () if event.is_printable else own.key_to_bindings.get(event.key, ())
    if bindings and await app_of(field).run_action(bindings[0].action, field):  # False if it does not apply
        event.stop()
        event.prevent_default()
