"""A proxy between a client and an agent that changes messages: write a `Middleware`, run it with `run_proxy`.

What no middleware handles is forwarded as it came, byte for byte.
"""

from accord.proxy.conductor import run_chain
from accord.proxy.middleware import CallNext, Middleware, Peers, hook
from accord.proxy.proxy import Proxy, run_proxy

__all__ = ["CallNext", "Middleware", "Peers", "Proxy", "hook", "run_chain", "run_proxy"]
