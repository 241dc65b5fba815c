"""README and docs run: every Python block is a test. What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

# A machine that is busy with something else is no failure.
settings.register_profile("jaato", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("jaato")

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["*.md"],
).pytest()
