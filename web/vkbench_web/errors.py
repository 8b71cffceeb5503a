"""Errors of the pages alone."""

from vkbench.errors import ServiceUnreachable, VkbenchError


class Unauthorised(VkbenchError):
    """This needs a token: `vkbench token add NAME --scope ...` makes one."""


class Forbidden(VkbenchError):
    """The token does not permit this."""


class Busy(ServiceUnreachable):
    """Too many queries run at once: try again in a few seconds."""
