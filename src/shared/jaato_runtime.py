"""What sessions share, under the name that its users import."""

from jaato.session.runtime import (
    JaatoRuntime,
)

__all__ = [
    "JaatoRuntime",
]
