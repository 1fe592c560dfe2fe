"""The data task as a rank runs it: real files, real tokenizers, real processes."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primus_core.data.indexed import IndexedWriter
from primus_core.errors import ConfigError, DependencyError, ExitCode, RunError
from primus_core.experiment import Value
from primus_core.plan import Task
from tests.core.dataruns import EOD, OLD, Rank, aged, cache, documents, entries, plan, prepare, with_task


def test_a_text_file_is_one_document_with_an_end(tmp_path: Path) -> None:
    """Bytes and the end of the document; the result tells prefix, counts and tokenizer."""
    aged(tmp_path / "a.txt", "hi ä\n")
    result = prepare(plan(tmp_path, train_data_path="a.txt"))
    assert documents(result) == [[*"hi ä\n".encode(), EOD]]
    assert result["train"] == [{"prefix": result["train"][0]["prefix"], "weight": None, "documents": 1, "tokens": 7}]
    assert (result["valid"], result["test"]) == ([], [])
    assert result["tokenizer"] == {"type": "ByteLevelTokenizer", "model": None, "vocab_size": 259, "eod": EOD}


def test_documents_of_every_kind_are_prepared(tmp_path: Path) -> None:
    """A folder gives text and JSON lines, another split indexed data, each with its share of the blend."""
    aged(tmp_path / "docs/b.txt", "bb")
    aged(tmp_path / "docs/a.txt", "a")
    aged(tmp_path / "docs/c.jsonl.gz", gzip.compress(b'{"body": "c1"}\n\n{"body": "c2"}\n', mtime=0))
    with IndexedWriter(str(tmp_path / "tokens"), 259) as writer:
        writer.append(np.array([5, 6]))
        writer.end_document()
    rank = Rank()
    blend: list[Value] = [3, "docs/*.txt", 1, "docs/*.gz"]
    result = prepare(plan(tmp_path, text_field="body", train_data_path=blend, valid_data_path="tokens"), rank)
    assert documents(result) == [[97, EOD], [98, 98, EOD]]
    assert documents(result, source=1) == [[99, 49, EOD], [99, 50, EOD]]
    assert documents(result, "valid") == [[5, 6]]
    assert [source["weight"] for source in result["train"]] == [0.75, 0.25]
    assert rank.notices[0].startswith("data  train: 3 bytes of text in 2 files -> 5 tokens, tokenized in ")
    assert rank.notices[2] == f"data  valid: 2 tokens of 1 documents in {tmp_path / 'tokens'}"


def test_five_megabytes_take_little_time(tmp_path: Path) -> None:
    """Byte-level tokenization of 200 files with 5 MB takes no more than two seconds of a processor, hashing and
    writing included."""
    for number in range(200):
        aged(tmp_path / f"src/{number}.py", f"{number:05}" * 5_000)
    rank = Rank()
    started = time.process_time()
    prepare(plan(tmp_path, train_data_path="src"), rank)
    assert time.process_time() - started < 2
    (notice,) = rank.notices
    assert re.fullmatch(r"data  5\.0 MB of text in 200 files -> 5,000,200 tokens, tokenized in [\d.]+ s", notice)
    assert rank.bars[-1] == ("tokenizing", 5_000_000, 5_000_000, "bytes")


def test_progress_is_not_told_more_often_than_ten_times_a_second(tmp_path: Path) -> None:
    """Three hundred files are no three hundred messages."""
    for number in range(300):
        aged(tmp_path / f"src/{number}.txt", "x")
    rank = Rank()
    started = time.monotonic()
    prepare(plan(tmp_path, train_data_path="src"), rank)
    assert len(rank.bars) <= 10 * (time.monotonic() - started) + 2


def test_memory_does_not_grow_with_a_file(tmp_path: Path) -> None:
    """A text of 64 MB is tokenized within an address space that could not hold it."""
    with (tmp_path / "big.txt").open("wb") as stream:
        for _ in range(64):
            stream.write(b"a line of text that is long enough\n" * 30_000)
    big = plan(tmp_path, train_data_path="big.txt")

    def limited() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), used + (48 << 20)))
        prepare(big)

    assert forked(limited)() == 0


def forked(work: Callable[[], object]) -> Callable[[], int]:
    """Run in a real child process; the result waits for its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def told(descriptor: int) -> bool:
    """Whether another process writes to a pipe within 30 seconds."""
    readable, _, _ = select.select([descriptor], [], [], 30)
    return bool(readable) and os.read(descriptor, 1) == b"1"


def test_the_second_run_takes_it_from_the_cache(tmp_path: Path) -> None:
    """The same data is not tokenized twice, and no progress is shown for nothing."""
    aged(tmp_path / "a.txt", "text")
    first = prepare(plan(tmp_path, train_data_path="a.txt"))
    rank = Rank()
    assert prepare(plan(tmp_path, train_data_path="a.txt"), rank) == first
    assert rank.notices == ["data  4 bytes of text in 1 file -> 5 tokens, from cache"]
    assert rank.bars == []


def test_the_cache_follows_content_not_time_or_name(tmp_path: Path) -> None:
    """A file that was only touched or renamed is known; one with other content of the same size is not."""
    path = aged(tmp_path / "a.txt", "text")
    prepare(plan(tmp_path, train_data_path="a.txt"))
    os.utime(path, (OLD + 9, OLD + 9))
    touched = Rank()
    prepare(plan(tmp_path, train_data_path="a.txt"), touched)
    path.rename(tmp_path / "b.txt")
    renamed = Rank()
    prepare(plan(tmp_path, train_data_path="b.txt"), renamed)
    assert all(rank.notices[0].endswith("from cache") for rank in (touched, renamed))
    aged(tmp_path / "b.txt", "TEXT")
    os.utime(tmp_path / "b.txt", (OLD + 10, OLD + 10))
    assert documents(prepare(plan(tmp_path, train_data_path="b.txt"))) == [[*b"TEXT", EOD]]
    assert len(entries(tmp_path)) == 2


def test_a_file_changed_within_the_clocks_tick_is_seen(tmp_path: Path) -> None:
    """Content that changes while size, time and inode stay is seen in a file written just now."""
    path = tmp_path / "a.txt"
    path.write_text("text")
    stamp = path.stat().st_mtime_ns
    prepare(plan(tmp_path, train_data_path="a.txt"))
    with path.open("r+") as stream:
        stream.write("TEXT")
    os.utime(path, ns=(stamp, stamp))
    assert documents(prepare(plan(tmp_path, train_data_path="a.txt"))) == [[*b"TEXT", EOD]]


def test_the_cache_follows_the_settings(tmp_path: Path) -> None:
    """Another field of the same JSON lines is another entry."""
    aged(tmp_path / "a.jsonl", '{"one": "1", "two": "2"}')
    for name, byte in (("one", 49), ("two", 50)):
        assert documents(prepare(plan(tmp_path, text_field=name, train_data_path="a.jsonl"))) == [[byte, EOD]]


@pytest.mark.parametrize("damage", ["meta.json", "tokens.bin", "tokens.idx"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    """A cache file that was cut short or lost is not taken for whole."""
    aged(tmp_path / "a.txt", "text")
    first = prepare(plan(tmp_path, train_data_path="a.txt"))
    broken = Path(first["train"][0]["prefix"]).parent / damage
    broken.write_bytes(broken.read_bytes()[:-2])
    rank = Rank()
    assert prepare(plan(tmp_path, train_data_path="a.txt"), rank) == first
    assert "tokenized in" in rank.notices[0]
    assert documents(first) == [[*b"text", EOD]]
    assert len(entries(tmp_path)) == 1


def test_a_lost_memory_of_files_costs_time_only(tmp_path: Path) -> None:
    """Damaged side files of the cache are found out anew."""
    aged(tmp_path / "a.txt", "text")
    first = prepare(plan(tmp_path, train_data_path="a.txt"))
    for content in ("{", "[]", '{"/a": 3}'):
        (cache(tmp_path) / "files.json").write_text(content)
        assert prepare(plan(tmp_path, train_data_path="a.txt")) == first


@pytest.mark.parametrize("other", [False, True])
def test_a_killed_build_is_never_taken_for_whole(tmp_path: Path, other: bool) -> None:
    """After SIGKILL just before the end the data is tokenized again and the remains are gone, also of other data."""
    aged(tmp_path / "a.txt", "text")
    ready, tell = os.pipe()

    def stop(what: str) -> None:
        if what == "tokenizing":
            os.write(tell, b"1")
            time.sleep(60)

    pid = os.fork()
    if pid == 0:
        prepare(plan(tmp_path, train_data_path="a.txt"), Rank(on_bar=stop))
        os._exit(9)
    assert told(ready)
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    (remains,) = entries(tmp_path)
    assert ".building-" in remains
    if other:
        aged(tmp_path / "a.txt", "other")
    rank = Rank()
    result = prepare(plan(tmp_path, train_data_path="a.txt"), rank)
    assert "tokenized in" in rank.notices[0]
    assert documents(result) == [[*(b"other" if other else b"text"), EOD]]
    assert entries(tmp_path) == [Path(result["train"][0]["prefix"]).parent.name]
    os.close(ready)
    os.close(tell)


def test_two_runs_at_once_build_once(tmp_path: Path) -> None:
    """The second run says that it waits, then takes what the first one built."""
    aged(tmp_path / "a.txt", "text")
    building, tell_building = os.pipe()
    waiting, tell_waiting = os.pipe()

    def first() -> None:
        def hold(what: str) -> None:
            os.write(tell_building, b"1")
            assert told(waiting)

        prepare(plan(tmp_path, train_data_path="a.txt"), Rank(on_bar=hold))

    def second() -> None:
        rank = Rank(on_notice=lambda text: os.write(tell_waiting, b"1") if "waiting" in text else None)
        prepare(plan(tmp_path, train_data_path="a.txt"), rank)
        assert rank.notices == [
            "data  another run tokenizes the same data; waiting for it",
            "data  4 bytes of text in 1 file -> 5 tokens, from cache",
        ]

    one = forked(first)
    assert told(building)
    two = forked(second)
    assert (one(), two()) == (0, 0)
    assert len(entries(tmp_path)) == 1
    for descriptor in (building, tell_building, waiting, tell_waiting):
        os.close(descriptor)


def test_a_full_disk_is_told_with_the_bytes_needed(tmp_path: Path) -> None:
    """A write that the system refuses names the folder and the bytes, and leaves no entry."""
    aged(tmp_path / "a.txt", "x" * 3_000_000)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        with pytest.raises(RunError) as caught:
            prepare(plan(tmp_path, train_data_path="a.txt"))
        assert str(cache(tmp_path)) in caught.value.what
        assert "up to 6,000,000 bytes are needed" in caught.value.why
        assert "workspace" in caught.value.remedy

    assert forked(limited)() == 0
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "where", "what"),
    [
        ("a.jsonl", '{"text": "x"}\n{"txt": "y"}\n', "a.jsonl:2", "no field 'text'"),
        ("a.jsonl", "not json\n", "a.jsonl:1", "not JSON"),
        ("a.jsonl", "\n \n", "", "a.jsonl holds no document"),
        ("a.txt", b"x" * 5000 + b"\xff", "", "a.txt is not UTF-8 text"),
        ("a.txt.gz", b"no gzip", "", "a.txt.gz is not a sound gzip file"),
        ("a.txt.gz", gzip.compress(b"caf\xe9", mtime=0), "", "a.txt.gz is not UTF-8 text"),
    ],
)
def test_bad_content_ends_the_run_and_leaves_no_entry(
    tmp_path: Path, name: str, content: str | bytes, where: str, what: str
) -> None:
    """A named file that is no data is an error with file and line; nothing of it stays in the cache."""
    aged(tmp_path / name, content)
    with pytest.raises(RunError) as caught:
        prepare(plan(tmp_path, train_data_path=name))
    assert what in caught.value.what
    assert caught.value.where.endswith(where)
    assert caught.value.exit_code == ExitCode.RUNTIME
    assert entries(tmp_path) == []


def test_found_files_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    """A file of a folder that stops being UTF-8 late is left out with a warning; a folder of such files is an error."""
    aged(tmp_path / "src/good.txt", "good")
    aged(tmp_path / "src/late.txt", b"x" * 9000 + b"\xff")
    rank = Rank()
    assert documents(prepare(plan(tmp_path, train_data_path="src"), rank)) == [[*b"good", EOD]]
    warning = ("warning", "files that are not UTF-8 are left out of the data")
    assert (warning[0], warning[1], {"count": 1, "first": str(tmp_path / "src/late.txt")}) in rank.logged
    aged(tmp_path / "src/good.txt", b"y" * 9000 + b"\xff")
    with pytest.raises(RunError, match="none of 2 files is UTF-8"):
        prepare(plan(tmp_path, train_data_path="src"))


def test_a_file_that_changes_while_it_is_tokenized_is_refused(tmp_path: Path) -> None:
    """Tokens of content that nobody hashed get no name in the cache."""
    path = aged(tmp_path / "a.txt", "x" * 4_000_000)
    from primus_core.data.textwork import TextWork, stamp_of, write_token_file
    from primus_core.data.tokenizers import ByteLevel

    work = TextWork(kind="text", files=(str(path),), hashes=("0",), stamps=(stamp_of(str(path)),), text_field="")
    path.write_text("y")
    with pytest.raises(RunError, match="changed while it was tokenized"):
        write_token_file([work], ByteLevel(), str(tmp_path / "tokens"), Rank())


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    """A file that was there when the plan was made, and is gone, is an error with its name."""
    path = aged(tmp_path / "a.txt", "text")
    late = plan(tmp_path, train_data_path="a.txt")
    path.unlink()
    with pytest.raises(RunError, match=r"a.txt: No such file"):
        prepare(late)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    """The rank refuses with exit 2 what the host could not see, and names both numbers and the remedy."""
    aged(tmp_path / "a.txt", "text")
    task = plan(tmp_path, train_data_path="a.txt").prepare[0]
    late = with_task(Task(kind="data", entry=task.entry, arguments={**task.arguments, "vocab_size": 258}))
    with pytest.raises(ConfigError, match="vocabulary of 259 is larger than the model's of 258") as caught:
        prepare(late)
    assert "vocab_size: 259" in caught.value.remedy
    assert caught.value.exit_code == ExitCode.USAGE


def test_an_indexed_token_beyond_the_model_is_refused(tmp_path: Path) -> None:
    """One token in millions that has no row is found, also when the largest token is remembered."""
    with IndexedWriter(str(tmp_path / "tokens"), 60_000) as writer:
        tokens: Any = np.ones(3_000_000, dtype=np.uint16)
        tokens[2_345_678] = 50_000
        writer.append(tokens)
        writer.end_document()
    for suffix in (".bin", ".idx"):
        os.utime(f"{tmp_path / 'tokens'}{suffix}", (OLD, OLD))
    hidden = plan(tmp_path, train_data_path="tokens", vocab_size=50_000, tokenizer_type="NullTokenizer")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"tokens.bin holds token 50,000, and the model's vocabulary is 50,000"):
            prepare(hidden)
    fitting = plan(tmp_path, train_data_path="tokens", vocab_size=50_001, tokenizer_type="NullTokenizer")
    result = prepare(fitting)
    assert result["tokenizer"] == {"type": "NullTokenizer", "model": None, "vocab_size": None, "eod": None}
    assert str(tmp_path / "tokens.bin") in json.loads((cache(tmp_path) / "tokens.json").read_text())


def test_indexed_data_without_tokens_is_refused(tmp_path: Path) -> None:
    """An index of nothing is an error before training, not a dataset of length zero in it."""
    aged(tmp_path / "t.bin", "ab")
    with IndexedWriter(str(tmp_path / "t"), 259) as writer:
        pass
    aged(tmp_path / "t.bin", "ab")
    assert writer.tokens == 0
    with pytest.raises(RunError, match=r"t.bin holds no token"):
        prepare(plan(tmp_path, train_data_path="t"))


def test_a_tokenizer_that_cannot_be_fetched_ends_a_run_on_text(tmp_path: Path) -> None:
    """Text needs its tokenizer; indexed data trains without, with a warning and an unknown end of document."""
    aged(tmp_path / "a.txt", "text")
    with IndexedWriter(str(tmp_path / "tokens"), 259) as writer:
        writer.append(np.array([5, 6]))
        writer.end_document()
    gated: dict[str, Value] = {"tokenizer_type": "Llama3Tokenizer", "tokenizer_model": "meta-llama/Llama-3.1-8B"}
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    with pytest.raises(DependencyError, match=r"meta-llama/Llama-3.1-8B cannot be fetched"):
        prepare(plan(tmp_path, train_data_path="a.txt", **gated), Rank(env=env))
    rank = Rank(env=env)
    result = prepare(plan(tmp_path, train_data_path="tokens", **gated), rank)
    assert rank.logged[0][0] == "warning"
    assert result["tokenizer"] == {
        "type": "Llama3Tokenizer",
        "model": "meta-llama/Llama-3.1-8B",
        "vocab_size": None,
        "eod": None,
    }


def test_a_hugging_face_tokenizer_tokenizes_a_long_text_as_a_whole(tmp_path: Path) -> None:
    """A text that is cut into pieces for memory gives the tokens it gives uncut, with its begin and end once."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors, trainers

    text = "".join(f"line {i}: the quick brown fox\n" for i in range(12_000))
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator([text[:2000]], trainers.BpeTrainer(vocab_size=200, special_tokens=["<s>", "</s>"]))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0), ("</s>", 1)])
    made.save(str(tmp_path / "tokenizer.json"))
    aged(tmp_path / "a.txt", text)
    whole = plan(
        tmp_path,
        train_data_path="a.txt",
        tokenizer_type="HuggingFaceTokenizer",
        tokenizer_model="tokenizer.json",
    )
    result = prepare(whole)
    (tokens,) = documents(result)
    assert tokens == [0, *made.encode(text, add_special_tokens=False).ids, 1]


def test_another_tokenizer_file_is_another_entry(tmp_path: Path) -> None:
    """The tokenizer's content is part of the key: a retrained one under the same name is not taken for the old."""
    import sentencepiece

    aged(tmp_path / "a.txt", "the quick brown fox")
    found = []
    for words in ("the quick brown fox", "jumps over the lazy dog"):
        with (tmp_path / "t.model").open("wb") as model:
            lines = iter([words] * 50)
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=lines, model_writer=model, vocab_size=22, minloglevel=2, hard_vocab_limit=False
            )
        asked: dict[str, Value] = {"tokenizer_type": "SentencePieceTokenizer", "tokenizer_model": "t.model"}
        found.append(documents(prepare(plan(tmp_path, train_data_path="a.txt", **asked))))
    assert found[0] != found[1]
    assert len(entries(tmp_path)) == 2
