"""A tokenizer's file from the Hugging Face hub.

It is looked for in the user's cache, then fetched into the cache that the environment names (HF_HOME, HF_HUB_CACHE,
XDG_CACHE_HOME), or else into one of the workspace.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from attrs import frozen

from primus_core.data.missing import missing_library
from primus_core.errors import DependencyError

_ENDPOINT = "https://huggingface.co"
_TRUE = ("1", "on", "yes", "true")
_CONNECT_SECONDS = 10.0


_ABSENT = object()


class NotInRepository(DependencyError):
    """The hub was asked, and the repository has no such file."""


@frozen(kw_only=True)
class Hub:
    """How the hub is asked.

    Attributes:
        env: the rank's environment. HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE and HF_ENDPOINT are honoured.
        fallback_cache: folder that files are fetched into where the environment names none.
    """

    env: Mapping[str, str]
    fallback_cache: str

    def fetch(self, hub_id: str, name: str) -> str:
        """Path of one file of a repository; the network is asked only when no cache has it.

        Raises:
            NotInRepository: the repository lacks the file.
            DependencyError: names the id, the reason and the variables that matter.
        """
        path = next((found for found in self._cached(hub_id, name) if isinstance(found, str)), None)
        if path is not None:
            return path
        if self.env.get("HF_HUB_OFFLINE", "").lower() in _TRUE:
            raise self._unreachable(hub_id, name, "HF_HUB_OFFLINE is set, and no cache has the file")
        self._check_network(hub_id, name)
        return self._download(hub_id, name)

    def fetch_optional(self, hub_id: str, name: str) -> str | None:
        """As `fetch`; None for a file that the repository lacks.

        A file that cannot be had now is an error all the same: without it the same run would mean something else.
        """
        if any(found is _ABSENT for found in self._cached(hub_id, name)):
            return None
        try:
            return self.fetch(hub_id, name)
        except NotInRepository:
            return None

    @property
    def named_cache(self) -> str | None:
        """The cache folder that the environment names."""
        if self.env.get("HF_HUB_CACHE"):
            return self.env["HF_HUB_CACHE"]
        if self.env.get("HF_HOME"):
            return os.path.join(self.env["HF_HOME"], "hub")
        base = self.env.get("XDG_CACHE_HOME")
        return os.path.join(base, "huggingface", "hub") if base else None

    def _cached(self, hub_id: str, name: str) -> Iterator[str | object | None]:
        """What the caches know: a path, that the repository had no such file (`_ABSENT`), or nothing."""
        try:
            from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache
        except ImportError as error:
            raise missing_library("huggingface-hub", error) from error
        # None is the user's default cache, which is only read
        for cache in (self.named_cache, None if self.named_cache else self.fallback_cache):
            found = try_to_load_from_cache(hub_id, name, cache_dir=cache)
            yield _ABSENT if found is _CACHED_NO_EXIST else found

    def _download(self, hub_id: str, name: str) -> str:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.utils import disable_progress_bars

        # A rank's output is a log file: a bar would fill it with control characters.
        disable_progress_bars()
        try:
            path: str = hf_hub_download(
                hub_id,
                name,
                cache_dir=self.named_cache or self.fallback_cache,
                token=self.env.get("HF_TOKEN") or None,
                endpoint=self.env.get("HF_ENDPOINT") or None,
            )
        except (OSError, EntryNotFoundError, ValueError) as error:
            raise self._explained(hub_id, name, error) from error
        return path

    def _explained(self, hub_id: str, name: str, error: Exception) -> DependencyError:
        from huggingface_hub.errors import RepositoryNotFoundError

        status = _status(error)
        if status in (401, 403) or isinstance(error, RepositoryNotFoundError):
            token = "the HF_TOKEN that is set has no access" if self.env.get("HF_TOKEN") else "HF_TOKEN is not set"
            return DependencyError(
                f"the hub does not give {name} of {hub_id}",
                why=f"it answered {status}; {token}, or there is no such repository",
                remedy=f"accept its licence at {self._endpoint}/{hub_id} and export HF_TOKEN, or name a local file",
            )
        if status == 404:
            return NotInRepository(
                f"the repository {hub_id} on the hub has no {name}",
                why="it answered 404",
                remedy="check tokenizer_model and tokenizer_type: SentencePieceTokenizer reads tokenizer.model, "
                "HuggingFaceTokenizer tokenizer.json",
            )
        return self._unreachable(hub_id, name, str(error))

    @property
    def _endpoint(self) -> str:
        return (self.env.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")

    def _check_network(self, hub_id: str, name: str) -> None:
        """Fail at once on a machine without network: the library would try again for half a minute."""
        if any(self.env.get(key) for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
            return
        url = urlsplit(self._endpoint)
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            socket.create_connection((url.hostname or "", port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            raise self._unreachable(hub_id, name, f"{url.hostname}: {error.strerror or error}") from error

    def _unreachable(self, hub_id: str, name: str, why: str) -> DependencyError:
        return DependencyError(
            f"{name} of {hub_id} cannot be fetched from the Hugging Face hub",
            why=why,
            remedy="set HF_HOME to a cache that has it, fetch it where there is network (HF_TOKEN for a gated model, "
            "HF_HUB_OFFLINE unset), or set tokenizer_model to a local file",
        )


def standard_hub(env: Mapping[str, str]) -> Hub:
    """The hub with the cache that every program of this user shares."""
    return Hub(env=env, fallback_cache=os.path.expanduser("~/.cache/huggingface/hub"))


def _status(error: BaseException) -> int | None:
    """The hub's answer; the library hides some of them behind an error of its own."""
    cause: BaseException | None = error
    while cause is not None:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status is not None:
            return int(status)
        cause = cause.__cause__
    return None
