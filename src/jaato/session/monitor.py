"""Watches how full the window gets while an answer streams. Decides only."""

from __future__ import annotations

from dataclasses import dataclass, field

CHARS_PER_TOKEN = 4.0
"""Between reports of usage the stream is weighed by its length; the next report corrects it."""


@dataclass(slots=True)
class StreamMonitor:
    """Tells once, per call, when the threshold is crossed."""

    threshold: float | None
    """The percentage to watch for; None watches nothing."""
    limit: int | None
    tokens: int
    """What the provider will see of the request."""
    crossed: bool = False
    _chars: int = field(default=0, init=False)

    @property
    def percent(self) -> float:
        """How full the window is by now."""
        if not self.limit:
            return 0.0
        return 100.0 * (self.tokens + self._chars / CHARS_PER_TOKEN) / self.limit

    def streamed(self, text: str) -> bool:
        """A piece arrived. Whether the threshold was crossed by it."""
        self._chars += len(text)
        return self._look()

    def reported(self, total_tokens: int | None) -> bool:
        """The provider said how much it is. Whether the threshold was crossed by that."""
        if total_tokens is not None:
            self.tokens, self._chars = total_tokens, 0
        return self._look()

    def _look(self) -> bool:
        if self.crossed or self.threshold is None or self.percent < self.threshold:
            return False
        self.crossed = True
        return True
