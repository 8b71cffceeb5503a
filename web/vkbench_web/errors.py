"""Errors of the pages alone."""

from vkbench.errors import VkbenchError


class Unauthorised(VkbenchError):
    """This needs a token: `vkbench token add NAME --scope ...` makes one."""


class Forbidden(VkbenchError):
    """The token does not permit this."""
