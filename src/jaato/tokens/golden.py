"""Known token ids per vocabulary: a tokenizer that gives others is refused at load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from jaato.errors import JaatoError, UsageError

Ids = tuple[int, ...]

_TEXTS = (
    "Hello, world!",
    "I'm sure they'll say it's DON'T",
    "  def f(x):\n\treturn x ** 2  # ok\n\n\n    pass\r\n",
    "\u6771\u4eac\u3068\u4e0a\u6d77\u3001\ud55c\uad6d\uc5b4\u3002",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\u0e01\u0e33",
    "3.14159 1234567890 0xDEADbeef",
    "a" * 40 + " " * 40 + "=" * 40,
    "<|endoftext|> <|/quote|>",
    (
        "\u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627 "
        "\u0928\u092e\u0938\u094d\u0924\u0947 camelCaseHTTPServer"
    ),
)

# fmt: off -- one row of ids per text
_IDS: Mapping[str, tuple[Ids, ...]] = {
    "o200k_base": (
        (13225, 11, 2375, 0),
        (15390, 3239, 57956, 2891, 4275, 153384),
        (
            220,
            1056,
            285,
            4061,
            1883,
            1393,
            1215,
            6240,
            220,
            17,
            220,
            1069,
            4763,
            2499,
            271,
            1853,
            370,
        ),
        (108713, 5330, 53339, 1395, 114854, 5959, 788),
        (84083, 28823, 101, 2524, 28823, 102, 2524, 28823, 100, 319, 13430, 96568),
        (18, 13, 16926, 4621, 220, 7633, 19354, 29338, 15, 220, 15, 87, 2052, 2416, 1464, 1079),
        (117525, 117525, 117525, 117525, 117525, 4754, 79343, 106657),
        (27, 91, 419, 1440, 919, 91, 29, 464, 91, 14, 20364, 91, 29),
        (23881, 131903, 60397, 26537, 100793, 14681, 628, 83330, 6187, 17893, 6444),
    ),
    "cl100k_base": (
        (9906, 11, 1917, 0),
        (40, 2846, 2771, 814, 3358, 2019, 433, 596, 45373, 17773),
        (220, 711, 282, 2120, 997, 862, 865, 3146, 220, 17, 220, 674, 5509, 1432, 262, 1522, 319),
        (14276, 109, 47653, 19732, 17905, 56235, 5486, 24486, 89059, 255, 32179, 1811),
        (
            76460,
            222,
            9468,
            239,
            101,
            378,
            235,
            9468,
            239,
            102,
            378,
            235,
            9468,
            239,
            100,
            384,
            54939,
            26265,
            76169,
        ),
        (18, 13, 9335, 2946, 220, 4513, 10961, 16474, 15, 220, 15, 80079, 1846, 1395, 830),
        (70540, 70540, 70540, 70540, 70540, 2623, 36874, 54337),
        (27, 91, 8862, 728, 428, 91, 29, 83739, 14, 3022, 91, 29),
        (
            54745,
            28089,
            8341,
            24252,
            11318,
            30925,
            22071,
            5821,
            15272,
            101,
            88344,
            79468,
            31584,
            97,
            35470,
            50252,
            4301,
            9412,
            5592,
        ),
    ),
}
# fmt: on

GOLDEN: Mapping[str, Mapping[str, Ids]] = MappingProxyType(
    {name: dict(zip(_TEXTS, ids, strict=True)) for name, ids in _IDS.items()}
)
"""Per vocabulary: texts of every kind (code, CJK, emoji, special tokens) and their ids."""


class TokenizerUnavailableError(JaatoError):
    """A tokenizer that cannot be had here, or not with the right vocabulary."""

    def __init__(self, tokenizer: str, encoding: str, *, because: str) -> None:
        super().__init__(
            f"{tokenizer} cannot count {encoding}: {because}",
            hint="counts are estimated unless another tokenizer is at hand",
        )
        self.tokenizer = tokenizer
        self.encoding = encoding
        self.because = because


def golden_of(encoding: str) -> Mapping[str, Ids]:
    """The known texts and ids of a vocabulary."""
    try:
        return GOLDEN[encoding]
    except KeyError:
        raise UsageError(
            f"no vocabulary named {encoding!r}", hint=f"one of {', '.join(GOLDEN)}"
        ) from None


def refuse_unless_golden(
    tokenizer: str,
    encoding: str,
    *,
    encode: Callable[[str], Sequence[int]],
    count: Callable[[Sequence[str]], list[int]],
) -> None:
    """Raise unless both ways through the tokenizer give what is known."""
    golden = golden_of(encoding)
    for text, ids in golden.items():
        if tuple(encode(text)) != ids:
            raise TokenizerUnavailableError(
                tokenizer, encoding, because=f"other token ids than known for {text[:20]!r}"
            )
    if count(list(golden)) != [len(ids) for ids in golden.values()]:
        raise TokenizerUnavailableError(
            tokenizer, encoding, because="a batch counts other than known"
        )
