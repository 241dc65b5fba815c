"""How far estimates are off, per kind of text."""

from __future__ import annotations

import base64
import json
import random

import pytest

from jaato.ports import TokenCounter
from jaato.tokens import SAFETY_MARGIN

dice = random.Random(3)  # noqa: S311 -- test data
SENTENCE = (
    "the request handler reads a session from its cache and returns an error when that fails "
    "because nobody has written one before or the connection was closed by the other side"
)
WORDS = SENTENCE.split()

PROSE = " ".join(" ".join(dice.choices(WORDS, k=12)).capitalize() + "." for _ in range(80))
LOGS = "\n".join(
    f"2026-11-{n % 28 + 1:02}T{n % 24:02}:17:{n % 60:02}.{n:06}Z WARN [worker-{n % 9}] "
    f"{' '.join(dice.choices(WORDS, k=4))} id={dice.randbytes(8).hex()} took={n / 7:.3f}ms"
    for n in range(100)
)
CODE = "".join(
    f"def read_{word}(self, path: Path) -> str:\n    if not path.exists():\n"
    f"        raise ValueError(f'no {{path}}')\n    return self._{word}.get(path, {n})\n\n"
    for n, word in enumerate(WORDS)
)
DATA = json.dumps([{"id": n, "name": dice.choice(WORDS), "ok": True} for n in range(100)], indent=2)
CHINESE = (
    "\u6211\u4eec\u9700\u8981\u5728\u4e0a\u4e0b\u6587\u7a97\u53e3\u5df2\u6ee1\u4e4b\u524d"
    "\u5220\u9664\u65e7\u7684\u6d88\u606f\uff0c\u4f46\u662f\u4e0d\u80fd\u4e22\u5931\u7528\u6237\u7684"
    "\u95ee\u9898\u3002"
) * 20
RUSSIAN = (
    "\u041c\u044b \u0434\u043e\u043b\u0436\u043d\u044b \u0443\u0434\u0430\u043b\u0438\u0442\u044c "
    "\u0441\u0442\u0430\u0440\u044b\u0435 \u0441\u043e\u043e\u0431\u0449\u0435\u043d\u0438\u044f. "
) * 20


@pytest.mark.parametrize(
    ("text", "off_by"),
    [
        pytest.param(PROSE, 0.15, id="prose"),
        pytest.param(LOGS, 0.15, id="logs"),
        pytest.param(CODE, 0.2, id="code"),
        pytest.param(DATA, 0.15, id="JSON"),
        pytest.param(CHINESE, 0.3, id="Chinese"),
        pytest.param(RUSSIAN, 0.5, id="Russian, of common words"),
        pytest.param(dice.randbytes(4000).hex(), 0.1, id="hex"),
        pytest.param(base64.b64encode(dice.randbytes(4000)).decode(), 0.1, id="base64"),
        pytest.param("0123456789" * 300, 0.02, id="digits"),
    ],
)
def test_an_estimate_is_near(text: str, off_by: float, counters: dict[str, TokenCounter]) -> None:
    (exact,) = counters["splintr-o200k"].count_texts([text])
    (estimate,) = counters["estimate"].count_texts([text])
    assert estimate == pytest.approx(exact, rel=off_by)
    assert estimate * SAFETY_MARGIN >= exact


def test_an_estimate_grows_with_the_text(counters: dict[str, TokenCounter]) -> None:
    counted = counters["estimate"].count_texts([PROSE * times for times in (1, 2, 400)])
    assert counted[1] == pytest.approx(2 * counted[0], rel=0.01)
    assert counted[2] == pytest.approx(400 * counted[0], rel=0.01)
