"""The baseline: copies lines from stdin to stdout, one by one."""

import sys

for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
