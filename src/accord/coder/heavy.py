"""The lock under which large libraries are imported in threads.

Several of them share parts that import each other in circles. Two threads in such a circle would get half of a module.
"""

import threading
from typing import Final

IMPORTING: Final = threading.Lock()
