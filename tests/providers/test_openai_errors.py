"""Requests that OpenAI, and servers like it, refuse: whose fault it is, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.providers.openai_talks import STAGE, asking, refused
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Refusal

from jaato.exchange import (
    AuthError,
    ContextLimitError,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    ServerError,
)
from jaato.providers.openai import Api


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> Api:
    return "chat" if request.param == "chat" else "responses"


TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens "
    "(9000 in the messages, 100 in the completion). Please reduce the length of the messages."
)
TOO_FAST = (
    "Request too large for gpt-5.5 on tokens per min (TPM): Limit 30000, Requested 41000. The "
    "input or output tokens must be reduced in order to run successfully."
)
SOON = "Rate limit reached for gpt-5.5 on tokens per min (TPM). Please try again in 1.898s."


@pytest.mark.parametrize(
    ("refusal", "kind", "facts"),
    [
        pytest.param(
            Refusal(status=400, message=TOO_LONG, code="context_length_exceeded"),
            ContextLimitError,
            {"limit": 8192, "code": "context_length_exceeded", "status": 400},
            id="the prompt does not fit",
        ),
        pytest.param(
            Refusal(status=400, message="Too long.", code="context_length_exceeded"),
            ContextLimitError,
            {"limit": None},
            id="a limit that is not told",
        ),
        pytest.param(
            Refusal(status=429, message=TOO_FAST, type="tokens", code="rate_limit_exceeded"),
            RateLimitError,
            {"code": "rate_limit_exceeded", "status": 429, "retry_after": None},
            id="a rate limit that speaks of tokens",
        ),
        pytest.param(
            Refusal(status=429, message=TOO_LONG, code="context_length_exceeded"),
            RateLimitError,
            {"status": 429},
            id="a rate limit with the wrong code",
        ),
        pytest.param(
            Refusal(status=413, message=TOO_FAST, type="tokens", code="rate_limit_exceeded"),
            RateLimitError,
            {"status": 413},
            id="a rate limit with the wrong status",
        ),
        pytest.param(
            Refusal(status=400, message=f"{TOO_LONG} Limit per minute: 8192 tokens."),
            RateLimitError,
            {},
            id="a rate limit that is told by its text alone",
        ),
        pytest.param(
            Refusal(status=429, message=SOON, headers={"retry-after-ms": "250"}),
            RateLimitError,
            {"retry_after": 0.25},
            id="a wait in milliseconds",
        ),
        pytest.param(
            Refusal(status=429, message=SOON, headers={"retry-after": "17"}),
            RateLimitError,
            {"retry_after": 17.0},
            id="a wait in seconds",
        ),
        pytest.param(
            Refusal(
                status=429, message=SOON, headers={"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"}
            ),
            RateLimitError,
            {"retry_after": 0.0},
            id="a wait until a moment that has passed",
        ),
        pytest.param(
            Refusal(status=429, message=SOON, headers={"retry-after": "soon"}),
            RateLimitError,
            {"retry_after": 1.898},
            id="a wait that only the text tells",
        ),
        pytest.param(
            Refusal(status=429, message="Please try again in 6m0s."),
            RateLimitError,
            {"retry_after": 360.0},
            id="a wait in minutes",
        ),
        pytest.param(
            Refusal(status=429, message="Please try again in 20ms."),
            RateLimitError,
            {"retry_after": 0.02},
            id="a wait that is short",
        ),
        pytest.param(
            Refusal(status=429, message="Please try again in a while."),
            RateLimitError,
            {"retry_after": None},
            id="a wait of unknown length",
        ),
        pytest.param(
            Refusal(status=429, type="insufficient_quota", code="insufficient_quota"),
            RateLimitError,
            {"code": "insufficient_quota"},
            id="no quota",
        ),
        pytest.param(
            Refusal(status=400, code="billing_hard_limit_reached"),
            RateLimitError,
            {"status": 400},
            id="no more may be spent",
        ),
        pytest.param(Refusal(status=402), RateLimitError, {"status": 402}, id="no credit"),
        pytest.param(
            Refusal(status=401, code="invalid_api_key"),
            AuthError,
            {"status": 401, "code": "invalid_api_key"},
            id="a wrong key",
        ),
        pytest.param(
            Refusal(status=403, code="unsupported_country_region_territory"),
            AuthError,
            {"status": 403},
            id="forbidden",
        ),
        pytest.param(
            Refusal(status=404, code="model_not_found"),
            RejectedError,
            {"status": 404, "code": "model_not_found"},
            id="no such model",
        ),
        pytest.param(
            Refusal(status=400, code="unsupported_parameter"),
            RejectedError,
            {"status": 400, "code": "unsupported_parameter"},
            id="a wrong request",
        ),
        pytest.param(
            Refusal(status=400, message="max_tokens is too large: 90000. At most 16384."),
            RejectedError,
            {"code": "invalid_request_error"},
            id="an answer of more than a model can write",
        ),
        pytest.param(Refusal(status=408), NetworkError, {"status": 408}, id="timed out"),
        pytest.param(
            Refusal(status=500, type="server_error"), ServerError, {"status": 500}, id="it failed"
        ),
        pytest.param(
            Refusal(status=503, message=TOO_LONG), ServerError, {}, id="overloaded, in odd words"
        ),
        pytest.param(
            Refusal(status=502, body="<h1>Bad gateway</h1>", message="<h1>Bad gateway</h1>"),
            ServerError,
            {"status": 502, "code": None},
            id="a gateway's page",
        ),
        pytest.param(
            Refusal(status=413, body="<h1>Too large</h1>", message="<h1>Too large</h1>"),
            ContextLimitError,
            {"limit": None, "status": 413},
            id="too many bytes",
        ),
    ],
)
def test_refusals(
    refusal: Refusal, kind: type[ProviderError], facts: dict[str, Any], api: Api
) -> None:
    error = refused(OpenAIServer([refusal]), name="mine", api=api)
    assert type(error) is kind, error
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.provider == "mine"
    assert refusal.message in str(error)
    assert "Error code" not in str(error), "the SDK's words are not the server's"


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        pytest.param(TOO_LONG, 8192, id="vLLM"),
        pytest.param(
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum "
            "context length is 8192 tokens and your request has 4000 input tokens.",
            8192,
            id="vLLM, of the answer",
        ),
        pytest.param(
            "The decoder prompt (length 12000) is longer than the maximum model length of 8192.",
            8192,
            id="vLLM, of the prompt",
        ),
        pytest.param("Requested tokens (9000) exceed context window of 8192", 8192, id="llama_cpp"),
        pytest.param(
            "the request exceeds the available context size, try increasing it",
            None,
            id="llama.cpp before it told figures",
        ),
        pytest.param(
            "request (9412 tokens) exceeds the available context size (8192 tokens), "
            "try increasing it",
            8192,
            id="llama.cpp",
        ),
        pytest.param("Context size has been exceeded.", None, id="llama.cpp while it answers"),
        pytest.param("the input length exceeds the context length", None, id="Ollama"),
        pytest.param(
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            8192,
            id="SGLang",
        ),
        pytest.param(
            "Trying to keep the first 5000 tokens when context the overflows. However, the model "
            "is loaded with context length of only 4096 tokens, which is not enough.",
            4096,
            id="LM Studio",
        ),
        pytest.param(
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
            4096,
            id="Text Generation Inference",
        ),
        pytest.param(
            "This endpoint's maximum context length is 131,072 tokens. However, you requested "
            "about 150000 tokens.",
            131_072,
            id="OpenRouter",
        ),
        pytest.param(
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            32_768,
            id="Mistral",
        ),
        pytest.param(
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            131_072,
            id="xAI",
        ),
        pytest.param(
            "The prompt is too long: 10000, model maximum context length: 8191",
            8191,
            id="Fireworks",
        ),
        pytest.param("prompt is too long: 208310 tokens > 200000 maximum", 200_000, id="Anthropic"),
        pytest.param(
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
            1_048_576,
            id="Gemini",
        ),
        pytest.param("Your request exceeded model token limit: 262144", 262_144, id="Kimi"),
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_context_limit_in_the_words_of_others(said: str, limit: int | None, status: int) -> None:
    body = {"error": {"message": said, "type": "BadRequestError", "code": status}}
    error = refused(OpenAIServer([Refusal(status=status, body=body)]))
    assert (type(error), error.limit, error.status) == (ContextLimitError, limit, status)
    assert error.code == "BadRequestError", "a status is no code"


@pytest.mark.parametrize(
    ("body", "said", "limit"),
    [
        pytest.param({"error": TOO_LONG}, TOO_LONG, 8192, id="a text for an error"),
        pytest.param({"object": "error", "message": TOO_LONG}, TOO_LONG, 8192, id="no envelope"),
        pytest.param({"detail": TOO_LONG}, TOO_LONG, 8192, id="a detail"),
        pytest.param(
            {
                "error": {
                    "code": 400,
                    "message": "too much",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9412,
                    "n_ctx": 8192,
                }
            },
            "too much",
            8192,
            id="a type and a figure (llama.cpp)",
        ),
        pytest.param(
            {
                "error": {
                    "code": 400,
                    "message": "Provider returned error",
                    "metadata": {"provider_name": "X", "raw": f'{{"error":"{TOO_LONG}"}}'},
                }
            },
            "Provider returned error",
            8192,
            id="behind a gateway (OpenRouter)",
        ),
    ],
)
def test_a_context_limit_in_the_form_of_others(body: Any, said: str, limit: int) -> None:
    error = refused(OpenAIServer([Refusal(status=400, body=body)]))
    assert (type(error), error.limit) == (ContextLimitError, limit)
    assert said in str(error)


def test_the_window_of_the_server_is_told_over_chat() -> None:
    error = refused(OpenAIServer(window=20), asking("word " * 100), api="chat")
    assert (type(error), error.limit) == (ContextLimitError, 20)


def test_responses_says_that_it_does_not_fit_but_not_what_would() -> None:
    error = refused(OpenAIServer(window=20), asking("word " * 100), api="responses")
    assert (type(error), error.limit) == (ContextLimitError, None)
    assert error.code == "context_length_exceeded"
