"""The message types of ACP version 1. This package does no I/O.

Each module lists its public types in `__all__`, and this package exports all of them. `accord.schema.codec`
reads and writes them; `accord.schema.methods` says which method uses which.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from accord.schema.auth import *
from accord.schema.base import *
from accord.schema.client_requests import *
from accord.schema.content import *
from accord.schema.initialize import *
from accord.schema.mcp import *
from accord.schema.session_requests import *
from accord.schema.updates import *
