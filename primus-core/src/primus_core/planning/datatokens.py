"""What `primus data` asks of the code that reads and writes tokens, and what it is told: types without numpy."""

from __future__ import annotations

from attrs import frozen

from primus_core.planning.datasources import Source
from primus_core.planning.datatokenizers import TokenizerChoice

INSPECT = "primus_core.data.inspection:inspect"
"""``(prefix, TokenizerChoice | None, environment) -> TokenFacts``."""
TOKENIZE = "primus_core.data.tokenfile:tokenize"
"""``(TokenizeRequest, environment, listener) -> Tokenized``."""


@frozen(kw_only=True)
class TokenizeRequest:
    """Text that becomes one token file."""

    sources: tuple[Source, ...]
    """In the order of their documents; none is indexed."""
    tokenizer: TokenizerChoice
    text_field: str
    prefix: str
    """Absolute path without ``.bin`` and ``.idx``."""
    force: bool = False
    """Replace what is there."""


@frozen(kw_only=True)
class Tokenized:
    """A token file that was written."""

    files: int
    text_bytes: int
    documents: int
    tokens: int


@frozen(kw_only=True)
class TokenFacts:
    """What a token file holds."""

    prefix: str
    documents: int
    tokens: int
    dtype: str
    bytes: int
    """Size of the ``.bin`` file."""
    longest: int
    shortest: int
    """Tokens of a document."""
    largest_token: int
    """-1 for no token."""
    is_sampled: bool
    """The largest token is that of a sample: the file is too large to look at every token."""
    tokenizer: str = ""
    """Type and model; empty where nothing tells them."""
    sample: str | None = None
    """The start of the first document, decoded."""
    why_no_sample: str = ""
