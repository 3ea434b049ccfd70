"""Settings sections of the services that generate pictures and speech."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from harness.config import PriceSettings, Section

OPENAI = "https://api.openai.com/v1"
CLASS_PATH = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
Shape = Literal["square", "landscape", "portrait"]
SIZES: dict[Shape, str] = {"square": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"}
NANO = 1_000_000_000
"""Costs are given in billionths of their currency."""


class ImagePrice(Section):
    """Price of pictures. picture: per picture. input, output: per million tokens, if the service counts any."""

    picture: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    input: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    output: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="ISO 4217")


class ImageSettings(Section):
    """A server with OpenAI's /images/generations, or the operator's own class. The agent can make pictures if this
    section exists."""

    model: str = Field(min_length=1, max_length=200, description="The provider's name of the model")
    use: str = Field(default="", pattern=f"^$|{CLASS_PATH}", description="module:Class of another service")
    base_url: str = OPENAI
    api_key: SecretStr | None = None
    sizes: dict[Shape, str] = Field(default=SIZES, min_length=1, description="The service's size for each shape")
    edits: bool = Field(default=True, description="Whether it also edits pictures: /images/edits")
    options: dict[str, Any] = Field(default={}, description="Added to each request, such as quality")
    timeout: float = Field(default=180.0, gt=0, le=3600, description="Seconds for one picture, retries included")
    price: ImagePrice | None = None

    @property
    def name(self) -> str:
        """Name under which its usage is recorded; no model has this name."""
        return f"images/{self.model}"

    @property
    def token_price(self) -> PriceSettings | None:
        price = self.price
        if price is None:
            return None
        return PriceSettings(input=price.input, output=price.output, currency=price.currency)


class SpeechPrice(Section):
    """Price of speech. characters: per million."""

    characters: float = Field(ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="ISO 4217")


class SpeechSettings(Section):
    """A server with OpenAI's /audio/speech, or the operator's own class. Answers can be spoken, and the agent can make
    recordings, if this section exists."""

    model: str = Field(min_length=1, max_length=200, description="The provider's name of the model")
    use: str = Field(default="", pattern=f"^$|{CLASS_PATH}", description="module:Class of another service")
    base_url: str = OPENAI
    api_key: SecretStr | None = None
    voice: str = Field(default="alloy", min_length=1, max_length=200, description="Voice for spoken answers")
    voices: tuple[str, ...] = Field(
        default=("alloy", "nova", "onyx", "shimmer"), max_length=100, description="Voices the agent can choose from"
    )
    options: dict[str, Any] = Field(default={}, description="Added to each request, such as speed or instructions")
    answers: Literal["off", "on"] = Field(default="off", description="Default where /voice has not been set")
    max_characters: int = Field(
        default=1500, ge=100, le=4000, description="Characters of an answer that are spoken at most"
    )
    max_recording: int = Field(
        default=30_000, ge=1000, description="Characters of one recording that the agent makes, such as a podcast"
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds for one part, retries included")
    price: SpeechPrice | None = None

    @property
    def name(self) -> str:
        """Name under which its usage is recorded; no model has this name."""
        return f"speech/{self.model}"

    @property
    def token_price(self) -> PriceSettings | None:
        """The price's currency; no tokens are counted."""
        return None if self.price is None else PriceSettings(input=0, output=0, currency=self.price.currency)

    def cost(self, characters: int) -> int:
        """The cost of speaking this many, in billionths of the currency."""
        return 0 if self.price is None else round(self.price.characters * characters * NANO / 1_000_000)
