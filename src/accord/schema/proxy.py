"""Unstable. Proxy chains: a conductor between client and agent passes messages through proxies."""

from typing import Any, TypeAlias

from .base import UNSET, Object
from .initialize import InitializeRequest, InitializeResponse
from .marks import Strict, Unstable, unstable


@unstable
class InitializeProxyRequest(InitializeRequest):
    """Unstable. `initialize` for a component that has a successor in the chain."""


@unstable
class InitializeProxyResponse(InitializeResponse):
    """Unstable. What the chain from this component on can do."""


@unstable
class ProxySuccessorRequest(Object):
    """Unstable. A request for, or from, the next component of the chain. No params, null and absent are one."""

    method: str
    params: Strict[Any] = UNSET


ProxySuccessorResponse: TypeAlias = Unstable[Any]
"""Unstable. The wrapped request's own result, unchanged."""


@unstable
class ProxySuccessorNotification(Object):
    """Unstable. A notification for, or from, the next component of the chain."""

    method: str
    params: Strict[Any] = UNSET
