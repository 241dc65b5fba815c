"""What a caller's `on_output` and `on_gc_threshold` are told: events in the callers' own form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jaato.events import (
    Event,
    ModelCallStarted,
    TextStreamed,
    ThoughtStreamed,
    ThresholdCrossed,
    ToolEnded,
    ToolStarted,
)
from jaato.session.emitter import name_of

OutputCallback = Callable[..., Any]
"""`(text)`, `(source, text)` or `(source, text, mode)`.

`source` is "model", "thinking" or "tool"; `mode` is "write" for the first piece of something, and
"append" for what continues it. With one parameter only the model's text is told.
"""

_THREE, _TWO = 3, 2


class Output:
    """Tells one callback what one agent puts out."""

    def __init__(self, agent_id: str, callback: OutputCallback) -> None:
        self._agent_id = agent_id
        self._callback = callback
        self._takes = _positional(callback)
        self._last = ""
        self.__qualname__ = name_of(callback)

    def __call__(self, event: Event) -> Any:
        """Pass on what this agent said; gives what the callback does, for whoever checks it."""
        if event.agent_id != self._agent_id:
            return None
        match event:
            case TextStreamed(text=text):
                return self._tell("model", text)
            case ThoughtStreamed(text=text):
                return self._tell("thinking", text)
            case ToolStarted(name=name):
                return self._tell("tool", f"{name} …", begins=True)
            case ToolEnded(name=name, is_error=is_error, tokens=tokens):
                outcome = "failed" if is_error else "done"
                return self._tell("tool", f"{name} {outcome} ({tokens:,} tokens)", begins=True)
            case ModelCallStarted():
                self._last = ""
            case _:
                pass
        return None

    def _tell(self, source: str, text: str, *, begins: bool = False) -> Any:
        mode = "write" if begins or source != self._last else "append"
        self._last = source
        if self._takes >= _THREE:
            return self._callback(source, text, mode)
        if self._takes == _TWO:
            return self._callback(source, text)
        return self._callback(text) if source == "model" else None


class ThresholdOutput:
    """Tells one callback that the threshold was crossed."""

    def __init__(self, agent_id: str, callback: Callable[[float, float], Any]) -> None:
        self._agent_id = agent_id
        self._callback = callback
        self.__qualname__ = name_of(callback)

    def __call__(self, event: Event) -> Any:
        """Pass on a crossing of this agent's threshold."""
        if isinstance(event, ThresholdCrossed) and event.agent_id == self._agent_id:
            return self._callback(event.percent_used, event.threshold)
        return None


def _positional(callback: Callable[..., Any]) -> int:
    """How many positional arguments a callback takes; three where it does not say."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return _THREE
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return _THREE
    own = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(sum(kind in own for kind in kinds), _THREE)
