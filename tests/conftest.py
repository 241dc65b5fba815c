"""What the tests of more than one folder share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Puts a distribution on `sys.path`: modules by name, and plug-ins by entry-point value."""
    site = tmp_path / "site"

    def put(
        name: str = "acme",
        *,
        plugins: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
        version: str = "1.0",
    ) -> Path:
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        for module, source in (modules or {}).items():
            (site / f"{module}.py").write_text(source, encoding="utf-8")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
        )
        registered = "\n".join(f"{key} = {value}" for key, value in plugins.items())
        (info / "entry_points.txt").write_text(
            f"[jaato.gc_plugins]\n{registered}\n", encoding="utf-8"
        )
        monkeypatch.syspath_prepend(str(site))
        return site

    yield put
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(site)):
            del sys.modules[name]
