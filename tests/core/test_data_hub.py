"""Fetching a tokenizer from a hub: a small server on this host stands in for the public one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from attrs import field, frozen

from primus_core.data.hub import Hub
from primus_core.errors import DependencyError

FILES = {"/org/tiny/resolve/main/tokenizer.json": b'{"tiny": true}'}
GATED = "/org/gated/"
ANSWERS = {"/org/broken/": (400, ""), "/org/gone/": (404, "RepoNotFound"), "/org/mirror/": (404, "")}
"""What a repository answers whatever it is asked for."""
TOKEN = "hf_let_me_in"


@frozen(kw_only=True)
class FakeHub:
    """A hub with one open and one gated repository."""

    url: str
    asked: list[str] = field(factory=list)


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    # tqdm, which the library counts bytes with, starts a thread that would outlive the test.
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            path, granted = self.path, self.headers.get("Authorization") == f"Bearer {TOKEN}"
            for prefix, (status, error) in ANSWERS.items():
                if path.startswith(prefix):
                    return self.answer(status, b"", error)
            if path.startswith(GATED) and not granted:
                return self.answer(401, b"", "GatedRepo")
            content = FILES.get(path.replace(GATED, "/org/tiny/"))
            if content is None:
                return self.answer(404, b"", "EntryNotFound")
            return self.answer(200, content)

        do_GET = do_HEAD

        def answer(self, status: int, content: bytes, error: str = "") -> None:
            self.send_response(status)
            for name, value in (("X-Error-Code", error), ("X-Repo-Commit", "c" * 40), ("ETag", '"e1"')):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield FakeHub(url=f"http://127.0.0.1:{server.server_address[1]}", asked=asked)
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_is_fetched_once_into_hf_home(tmp_path: Path, fake_hub: FakeHub) -> None:
    """The file lands in HF_HOME, and the second time no one is asked."""
    hub = Hub(env={"HF_HOME": str(tmp_path), "HF_ENDPOINT": fake_hub.url}, fallback_cache="/nowhere")
    path = Path(hub.fetch("org/tiny", "tokenizer.json"))
    assert path.is_relative_to(tmp_path / "hub")
    assert path.read_bytes() == b'{"tiny": true}'
    count = len(fake_hub.asked)
    offline = Hub(env={**hub.env, "HF_HUB_OFFLINE": "1"}, fallback_cache="/nowhere")
    assert hub.fetch("org/tiny", "tokenizer.json") == offline.fetch("org/tiny", "tokenizer.json") == str(path)
    assert len(fake_hub.asked) == count


def test_without_a_named_cache_the_workspace_holds_the_file(tmp_path: Path, fake_hub: FakeHub) -> None:
    """Where the environment names no cache nothing is written outside the workspace."""
    hub = Hub(env={"HF_ENDPOINT": fake_hub.url}, fallback_cache=str(tmp_path / "cache"))
    assert Path(hub.fetch("org/tiny", "tokenizer.json")).is_relative_to(tmp_path / "cache")


def test_a_gated_file_needs_the_token(tmp_path: Path, fake_hub: FakeHub) -> None:
    """401 names the id and HF_TOKEN, never the token's value; the right token opens."""
    env = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": fake_hub.url}
    for token, why in (({}, "HF_TOKEN is not set"), ({"HF_TOKEN": "hf_wrong"}, "has no access")):
        with pytest.raises(DependencyError) as caught:
            Hub(env={**env, **token}, fallback_cache="/nowhere").fetch("org/gated", "tokenizer.json")
        assert "org/gated" in caught.value.what
        assert "401" in caught.value.why
        assert why in caught.value.why
        assert "HF_TOKEN" in caught.value.remedy
        assert "hf_wrong" not in f"{caught.value.what}{caught.value.why}{caught.value.remedy}"
    granted = Hub(env={**env, "HF_TOKEN": TOKEN}, fallback_cache="/nowhere")
    assert Path(granted.fetch("org/gated", "tokenizer.json")).read_bytes()


def test_a_repository_without_the_file_is_told(tmp_path: Path, fake_hub: FakeHub) -> None:
    """404 says that the repository lacks the file; an optional one is simply not there, also of a mirror."""
    hub = Hub(env={"HF_HOME": str(tmp_path), "HF_ENDPOINT": fake_hub.url}, fallback_cache="/nowhere")
    assert hub.fetch_optional("org/mirror", "tokenizer_config.json") is None
    with pytest.raises(DependencyError, match=r"org/tiny on the hub has no tokenizer.model"):
        hub.fetch("org/tiny", "tokenizer.model")
    assert hub.fetch_optional("org/tiny", "tokenizer_config.json") is None


def test_what_a_repository_lacks_is_remembered(tmp_path: Path, fake_hub: FakeHub) -> None:
    """An optional file that was not there online is not there offline either: both runs mean the same."""
    env = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": fake_hub.url}
    online = Hub(env=env, fallback_cache="/nowhere")
    online.fetch("org/tiny", "tokenizer.json")
    assert online.fetch_optional("org/tiny", "tokenizer_config.json") is None
    offline = Hub(env={**env, "HF_HUB_OFFLINE": "1"}, fallback_cache="/nowhere")
    assert offline.fetch_optional("org/tiny", "tokenizer_config.json") is None


@pytest.mark.parametrize(
    ("repository", "env"),
    [
        ("org/tiny", {"HF_HUB_OFFLINE": "1"}),
        ("org/tiny", {"HF_ENDPOINT": "http://127.0.0.1:9"}),
        ("org/broken", {}),
        ("org/gone", {}),
        ("org/gated", {}),
    ],
)
def test_an_optional_file_that_cannot_be_had_now_is_an_error(
    tmp_path: Path, fake_hub: FakeHub, repository: str, env: dict[str, str]
) -> None:
    """Only a repository that says so lacks a file; whoever cannot ask it does not go on without."""
    hub = Hub(env={"HF_HOME": str(tmp_path), "HF_ENDPOINT": fake_hub.url, **env}, fallback_cache="/nowhere")
    with pytest.raises(DependencyError) as caught:
        hub.fetch_optional(repository, "tokenizer_config.json")
    assert repository in caught.value.what


@pytest.mark.parametrize(
    ("env", "why"),
    [({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"), ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "127.0.0.1")],
)
def test_offline_is_told_at_once(tmp_path: Path, env: dict[str, str], why: str) -> None:
    """Without network the error names the id and the variables, within seconds."""
    started = time.monotonic()
    with pytest.raises(DependencyError) as caught:
        Hub(env={"HF_HOME": str(tmp_path), **env}, fallback_cache="/nowhere").fetch("org/tiny", "tokenizer.json")
    assert time.monotonic() - started < 5
    assert caught.value.exit_code == 1
    assert "org/tiny" in caught.value.what
    assert why in caught.value.why
    assert "HF_HOME" in caught.value.remedy
    assert "HF_TOKEN" in caught.value.remedy
