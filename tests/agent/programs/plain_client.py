"""A client that starts an agent with plain pipes, sends it its own stdin, and reads quickly until killed.

It prints the process id of the agent once the agent has sent its first update.
"""

import subprocess
import sys

process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert process.stdin
assert process.stdout
process.stdin.write(sys.stdin.buffer.read())
process.stdin.flush()
while b"session/update" not in process.stdout.readline():
    pass
print(process.pid, flush=True)  # noqa: T201 - the test waits for it
while process.stdout.read(65536):
    pass
