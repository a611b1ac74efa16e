"""What goes along with sessions and prompts: folders, MCP servers, images, sound, files."""

from typing import Final

from accord.check.client.desk import without
from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, Turn

_IMAGE: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000ffff030000060005"
    "57bfabd40000000049454e44ae426082"
)
_SOUND: Final = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"


async def _through(stage: Stage, *acts: str, **values: str) -> Part:
    number = len(stage.parts) + 1
    await stage.start(*acts, **values)
    part = await stage.agent(number)
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        await stage.finish(Turn(part, prompt))
    else:
        await stage.over()
    await stage.client.end()
    return part


async def folders(stage: Stage) -> None:
    stage.need("roots")
    part = await _through(stage, "roots")
    if not part.calls("session/new"):
        stage.ledger.unseen(130, "it opened no session")


async def no_folders(stage: Stage) -> None:
    stage.need("roots")
    stage.desk.initialized["agentCapabilities"] = without("sessionCapabilities.additionalDirectories")
    await _through(stage, "roots")
    stage.ledger.kept(129, "made to want it, it did without")


async def servers(stage: Stage) -> None:
    stage.need("servers")
    await _through(stage, "servers")


async def no_servers(stage: Stage) -> None:
    stage.need("servers")
    stage.desk.initialized["agentCapabilities"] = without("mcpCapabilities")
    part = await _through(stage, "servers")
    if part.calls("session/new"):
        for rule in (98, 99, 301):
            stage.ledger.kept(rule, "made to want it, it did without")


async def attachments(stage: Stage) -> None:
    """Each kind, of an agent that takes all and of one that takes none."""
    stage.need("attach")
    files = {"picture.png": _IMAGE, "sound.wav": _SOUND, "text.txt": b"text\n"}
    for name, data in files.items():
        (stage.folder / name).write_bytes(data)
    for lacks in ("", "promptCapabilities"):
        stage.desk.initialized["agentCapabilities"] = without(lacks) if lacks else without()
        for name in files:
            await _through(stage, "attach", file=str(stage.folder / name))
    stage.ledger.kept(141, "only what the agent takes")


SCENES: Final = (
    Scene("further folders", "an agent that takes them", (130,), folders),
    Scene("no further folders", "an agent that does not take them", (129,), no_folders),
    Scene("MCP servers", "one of each kind", (98, 99, 100, 101), servers),
    Scene("no MCP servers over the network", "an agent that takes only its own", (98, 99, 301), no_servers),
    Scene(
        "attachments", "an image, sound and a file, for agents that take all or nothing", (141,), attachments
    ),
)
