"""Messages and their parts, under the name that their users import."""

from jaato.history import (
    FunctionCall,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)

__all__ = [
    "FunctionCall",
    "Media",
    "Message",
    "Part",
    "Role",
    "ToolResult",
]
