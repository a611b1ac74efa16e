"""`accord serve notify`: sends a test notification to everything that gets notifications.

Imported on first use: it loads accord.gateway.
"""

from collections.abc import Sequence
from typing import Final

from accord.cli.command_parser import Parser
from accord.cli.exit_codes import FAILED
from accord.cli.serve_command import add_target_options, notification_settings
from accord.cli.serve_tokens import with_access
from accord.clock import SYSTEM_CLOCK
from accord.errors import AccordError
from accord.gateway.access.access_contracts import Browsers, PushDevices, Tokens
from accord.gateway.access.push_devices import PushDevice
from accord.gateway.notifications.notification_settings import shown_url
from accord.gateway.notifications.notification_targets import Target
from accord.gateway.notifications.notifier import Notifier
from accord.safe_text import visible

_NOTHING: Final = (
    "There is nothing to notify. Turn notifications on in the page, or name a topic or a webhook in "
    "serve.json; see the documentation of notifications."
)


def main(arguments: Sequence[str]) -> int:
    """Send the test notifications and return the exit code."""
    parser = Parser("accord serve notify", "Send a test notification to all devices, topics and webhooks.")
    add_target_options(parser)
    parser.option("--cluster URL", "NATS servers of the cluster (default: those of serve.json)")
    options = parser.parse_args(arguments)
    settings = notification_settings(options)

    async def send(tokens: Tokens, _: Browsers, devices: PushDevices) -> list[tuple[str, str]]:
        notifier = Notifier(settings, devices, tokens, lambda rights: 0, clock=SYSTEM_CLOCK)
        try:
            targets: list[Target | PushDevice] = [*notifier.own_targets(), *devices.all()]
            return [(_name(target, tokens), await _send(notifier, target)) for target in targets]
        finally:
            await notifier.aclose()

    results = with_access(options.cluster, send)
    for name, error in results:
        print(f"{name}: {f'failed: {visible(error)}' if error else 'sent'}")
    if not results:
        print(_NOTHING)
    return FAILED if not results or any(error for _, error in results) else 0


def _name(target: Target | PushDevice, tokens: Tokens) -> str:
    if not isinstance(target, PushDevice):
        return target.name
    token = tokens.get(target.token)
    name = f" ({visible(token.name)})" if token is not None and token.name else ""
    return f"browser of token {target.token}{name} at {shown_url(target.endpoint)}"


async def _send(notifier: Notifier, target: Target | PushDevice) -> str:
    try:
        return await notifier.send_test(target)
    except (AccordError, OSError) as error:
        return str(error)
