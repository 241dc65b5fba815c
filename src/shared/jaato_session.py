"""A session, under the name that its users import."""

from jaato.session.blocking import (
    JaatoSession,
)

__all__ = [
    "JaatoSession",
]
