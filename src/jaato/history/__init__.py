"""Messages and ids, turns and steps, the laws, and the only function that applies edits."""

from jaato.history.coherence import (
    Breach,
    Violation,
    cut_points,
    is_legal,
    repaired,
    violations,
)
from jaato.history.edits import Drop, Edit, Fold, Notify, Stub, applied, edit_point
from jaato.history.message import (
    RECALLED_MARK,
    STUB_MARK,
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato.history.turns import Outline, Span, shapes_of, span_starts, steps

__all__ = [
    "RECALLED_MARK",
    "STUB_MARK",
    "Breach",
    "Drop",
    "Edit",
    "Fold",
    "FunctionCall",
    "Kind",
    "Media",
    "Message",
    "Notify",
    "Outline",
    "Part",
    "Role",
    "Span",
    "Stub",
    "ToolResult",
    "Violation",
    "applied",
    "cut_points",
    "edit_point",
    "is_legal",
    "repaired",
    "shapes_of",
    "span_starts",
    "steps",
    "violations",
]
