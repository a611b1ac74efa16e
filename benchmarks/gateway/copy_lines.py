"""The yardstick: copies lines from one pipe to another, one by one, and does nothing else."""

import sys

for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
