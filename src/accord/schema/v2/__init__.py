"""The message types of ACP version 2, a draft. Those with the shape of version 1 are the types of version 1.

The names are those of the official schema. A name ends in `V2` if version 1 has it for another shape.
`accord.schema.v2.methods` says which method uses which. Imported on first use: a program that speaks only
version 1 never loads this package.
"""

from accord.schema.v2.client_requests import *
from accord.schema.v2.content import *
from accord.schema.v2.initialize import *
from accord.schema.v2.session_requests import *
from accord.schema.v2.shared_types import *
from accord.schema.v2.updates import *
