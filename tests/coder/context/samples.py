"""Sample texts, each with the token counts of two providers' tokenizers."""

SAMPLES: dict[str, tuple[str, int, int]] = {
    "prose": (
        """\
The agent reads a file before it changes it, and it checks every step. When the window of the model is \
full, the older part of the
conversation gives way to a summary. Nothing that was promised is lost on the way: the plan stays, the last \
prompt stays in the user's own
words, and the names of the files are told so that they can be read again. If the model cannot write the \
summary, a mechanical one takes its place.
""",
        94,
        96,
    ),
    "python": (
        '''\
def merge(first: list[int], second: list[int]) -> list[int]:
    """Merge two sorted lists."""
    merged: list[int] = []
    left = right = 0
    while left < len(first) and right < len(second):
        if first[left] <= second[right]:
            merged.append(first[left])
            left += 1
        else:
            merged.append(second[right])
            right += 1
    return merged + first[left:] + second[right:]


class ConnectionPool:
    def __init__(self, max_size: int = 10, timeout_seconds: float = 30.0) -> None:
        self._connections: dict[str, Connection] = {}
        self._max_size = max_size
        self._timeout = timeout_seconds
''',
        161,
        176,
    ),
    "json": (
        """\
{"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "sess_4f2a91", "prompt": [
  {"type": "text", "text": "Please fix the failing test."}, {"type": "resource_link", "uri": \
"file:///home/me/app/a.py", "name": "a.py",
  "mimeType": "text/x-python", "size": 1834}], "_meta": {"editor": "zed", "version": "0.201.4", "windows": \
[1, 2, 3]}}}
""",
        137,
        139,
    ),
    "diff": (
        """\
--- a/src/app/server.py
+++ b/src/app/server.py
@@ -41,9 +41,11 @@ async def handle(request: Request) -> Response:
     user = await load_user(request.headers["X-User-Id"])
-    if user is None:
-        return Response(status=404)
+    if user is None or user.deleted_at is not None:
+        log.warning("unknown user %s", request.headers["X-User-Id"])
+        return Response(status=404, body=b"not found")
     return Response(status=200, body=render(user))
""",
        123,
        150,
    ),
    "log": (
        """\
2026-03-14T09:26:53.589Z INFO  worker[4121] request id=9f86d081884c7d65 took 132 ms path=/api/v1/users/17
2026-03-14T09:26:53.793Z WARN  worker[4127] retry 2/6 in 1.75 s: 429 Too Many Requests
2026-03-14T09:26:54.238Z ERROR worker[4121] ConnectionResetError: [Errno 104] Connection reset by peer
2026-03-14T09:26:54.846Z INFO  worker[4130] request id=60303ae22b998861 took 8 ms path=/healthz
""",
        165,
        164,
    ),
    "base64": (
        "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAYAAACqaXHeAAAB7klEQVR42u2aPU7DMBTHf0kLEhMwMnMBBhgQYmFjYoCFgYEbcAVO"
        "wA24AUfgCnAFGJgYkBASUoUQH22aMMRBVpTEz3aSNu37S1Hj2I7/z8/v2c9WgiAICIKw2Wy6gEsAjwCOAJwBGAEYABgCGADoA+gB"
        "6ALoAGgDaAHYAtAEsAlgA8A6gDUAqwBWACwDWAKwCGABwDyAOQCzAKYBTAGYBDABYBzAGIBRAOoAagCqACoAygBKAIoACgDyAHIA"
        "sgAyANIAUgCSABIA4gBiAKIAIgDCAEIAggACAPwAfAC8ADwA3ABcAJwAHAD"
        "sAGwArAAsAMwATACMAAwA9AB0ALQANADUAFQAlAAU",
        253,
        258,
    ),
}
