"""`python -m accord`, for where the console script is not on PATH."""

import sys

from accord.cli import main

if __name__ == "__main__":
    sys.exit(main())
