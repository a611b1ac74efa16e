"""`python -m accord.cli`, for where the console script is not on PATH."""

import sys

from accord.cli import main

sys.exit(main())
