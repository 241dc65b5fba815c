"""What names a model: a provider and a model in every form that `connect` takes."""

from __future__ import annotations

from typing import Any, Final

from jaato.errors import UsageError
from jaato.ports import Provider
from jaato.wiring import PROVIDERS

LOCAL_MODEL: Final = "smollm2"


def resolved(
    provider: str | Provider | None,
    project: str | None,
    location: str | None,
    model: str | None,
    *,
    resumes: bool = False,
) -> tuple[str, str, dict[str, Any]]:
    """The provider's name, the model, and what the provider is told of a project.

    A session that is resumed has both: then what is not named is empty.
    """
    check_names(provider, project=project, location=location, model=model)
    if not isinstance(provider, str | None):
        return provider.name, model or project or ("" if resumes else "default"), {}
    if resumes and (provider, project, location, model) == (None,) * 4:
        return "", "", {}
    where = {"project": project, "location": location}
    if provider is None and project and location and (model or resumes):
        return "google", model or "", where
    if provider is not None:
        wanted = model
        if provider != "google" and project is not None and model is None:
            wanted, where = project, {}
        return (
            provider,
            wanted or _default_model(provider, resumes=resumes),
            {key: value for key, value in where.items() if value},
        )
    if model is None:
        # The only name that was given stands where the seeds have the project.
        where["project"] = None
    spelled = project if model is None else model
    if spelled is None:
        return "local", LOCAL_MODEL, {}
    name, model = _spelled(spelled, resumes=resumes)
    return name, model, {key: value for key, value in where.items() if value}


def provider_in(model: str) -> tuple[str | None, str]:
    """The provider in front of a model's name, if it is one: `llama3:8b` is a name."""
    name, colon, rest = model.partition(":")
    return (name, rest) if colon and rest and name in PROVIDERS else (None, model)


def _spelled(spelled: str, *, resumes: bool) -> tuple[str, str]:
    """What one name says: "openai:gpt-5.5", or a provider that has one model."""
    name, colon, rest = spelled.partition(":")
    if not colon and name in PROVIDERS:
        return name, _default_model(name, resumes=resumes)
    if not name or not rest:
        raise UsageError(
            f"{spelled!r:.80} names no provider",
            hint='write "openai:gpt-5.5", or connect(provider=…, model=…); Vertex AI takes '
            "connect(project, location, model)",
        )
    return name, rest


def _default_model(provider: str, *, resumes: bool) -> str:
    if resumes:
        return ""
    if provider == "local":
        return LOCAL_MODEL
    if provider == "scripted":
        return "worker"
    if provider not in PROVIDERS:
        # One that was adopted; the runtime says of any other that there is none.
        return "default"
    raise UsageError(f"which model of {provider!r}?", hint='for example model="…"')


def check_names(provider: object, **names: object) -> None:
    """Raise where something else is given for a name."""
    if isinstance(provider, type) or not isinstance(provider, str | Provider | None):
        raise UsageError(
            f"{provider!r:.80} is no provider",
            hint='the name of one, such as "openai", or an instance',
        )
    for key, value in names.items():
        if not isinstance(value, str | None):
            raise UsageError(f"{key} is {value!r:.80}", hint=f"it is the name of a {key}")
