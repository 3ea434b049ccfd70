"""Built-in knowledge of `antler init`: the credentials of each platform, and the providers of models."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from sandbox.egress.tls import trust

if TYPE_CHECKING:
    from pathlib import Path

LOCAL_SECONDS = 1.0
LIST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Credential:
    """A key of an account that is asked for. variable: its environment variable; "" for a value that is not secret and
    is written to the config."""

    key: str
    variable: str = ""


CREDENTIALS: dict[str, tuple[Credential, ...]] = {
    "telegram": (Credential("token", "TELEGRAM_BOT_TOKEN"),),
    "slack": (Credential("bot_token", "SLACK_BOT_TOKEN"), Credential("app_token", "SLACK_APP_TOKEN")),
    "feishu": (Credential("app_id"), Credential("app_secret", "FEISHU_APP_SECRET")),
    "wecom": (Credential("bot_id"), Credential("secret", "WECOM_SECRET")),
}


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models with OpenAI's API. variable: of its key, "" where it needs none. model: the proposed one.
    transcribes: the model for speech to text, "" where there is none. keys: where a key is created."""

    name: str
    base_url: str
    variable: str = ""
    model: str = ""
    transcribes: str = ""
    keys: str = ""


OPENAI = "openai"
PROVIDERS: dict[str, Provider] = {
    OPENAI: Provider(
        *("OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-4.1", "gpt-4o-mini-transcribe"),
        keys="https://platform.openai.com/api-keys",
    ),
    "anthropic": Provider(
        *("Anthropic (Claude)", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "claude-sonnet-4-5"),
        keys="https://console.anthropic.com/settings/keys",
    ),
    "gemini": Provider(
        *("Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        model="gemini-2.5-flash",
        keys="https://aistudio.google.com/apikey",
    ),
    "deepseek": Provider(
        *("DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", "deepseek-chat"),
        keys="https://platform.deepseek.com/api_keys",
    ),
    "qwen": Provider(
        *("Qwen 通义千问 (DashScope)", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
        model="qwen-plus",
        keys="https://bailian.console.aliyun.com/?tab=model#/api-key",
    ),
    "moonshot": Provider(
        *("Moonshot (Kimi)", "https://api.moonshot.cn/v1", "MOONSHOT_API_KEY", "kimi-k2-0905-preview"),
        keys="https://platform.moonshot.cn/console/api-keys",
    ),
    "doubao": Provider(
        *("Doubao 豆包 (Volcengine Ark)", "https://ark.cn-beijing.volces.com/api/v3", "ARK_API_KEY"),
        keys="https://console.volcengine.com/ark/region:ark+cn-beijing/apiKey",
    ),
    "openrouter": Provider(
        *("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-4.1"),
        keys="https://openrouter.ai/settings/keys",
    ),
}
LOCAL = {"Ollama": 11434, "LM Studio": 1234, "vLLM": 8000, "llama.cpp": 8080}
"""Servers that people run on their own machines, with their ports."""


async def local_providers() -> dict[str, Provider]:
    """The servers that answer on this machine now, each with one of its models."""
    urls = {name: f"http://127.0.0.1:{port}/v1" for name, port in LOCAL.items()}
    lists = await asyncio.gather(*(models_of(url, "", LOCAL_SECONDS) for url in urls.values()))
    found = zip(urls.items(), lists, strict=True)
    return {name.lower(): Provider(name, url, model=models[0]) for (name, url), models in found if models}


async def models_of(
    base_url: str, key: str, seconds: float = LIST_SECONDS, route: tuple[str | None, Path | None] = (None, None)
) -> list[str]:
    """The names of a provider's models; empty where it lists none, for whatever reason. route: proxy and CA file."""
    proxy, ca_file = route
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with contextlib.suppress(httpx.HTTPError, httpx.InvalidURL, ValueError, OSError):
        verify = trust(ca_file)
        async with httpx.AsyncClient(timeout=seconds, trust_env=False, proxy=proxy, verify=verify) as client:
            answer: Any = (await client.get(f"{base_url.rstrip('/')}/models", headers=headers)).json()
            entries = answer.get("data") if isinstance(answer, dict) else None
            named = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
            return [name for name in named if isinstance(name, str)]
    return []
