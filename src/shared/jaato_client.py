"""The client, under the name that its users import."""

from jaato.client import (
    JaatoClient,
)

__all__ = [
    "JaatoClient",
]
