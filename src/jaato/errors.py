"""The base of every error jaato raises: a fact, a hint, and data on attributes."""

from __future__ import annotations


class JaatoError(Exception):
    """Something went wrong; `hint` says what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        # Not the text of another base: a KeyError would put it in quotes.
        fact = Exception.__str__(self)
        return f"{fact} ({self.hint})" if self.hint else fact


class UsageError(JaatoError, ValueError):
    """The caller asked for something that cannot be."""


class MissingExtraError(JaatoError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(f"{package} is not installed", hint=f"pip install 'jaato[{extra}]'")
        self.package = package
        self.extra = extra
