"""Samples of token files: what is refused, and what a sample tells."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from primus_core.data.blend import BlendedSamples, Mix
from primus_core.data.datasets import SampleMaker, TokenFile
from primus_core.data.indexed import IndexedReader, IndexedWriter
from primus_core.data.samples import FileSamples
from primus_core.data.splits import split_spans
from primus_core.errors import ConfigError, RunError


def token_file(prefix: Path, *lengths: int) -> str:
    """Documents whose tokens all are the document's number."""
    with IndexedWriter(str(prefix), 1000) as writer:
        for number, length in enumerate(lengths):
            writer.append(np.full(length, number))
            writer.end_document()
    return str(prefix)


def samples(prefix: str, wanted: int | None = None, length: int = 8) -> FileSamples:
    return FileSamples(IndexedReader(prefix), sequence_length=length, wanted=wanted, seed=1)


def test_a_sample_tells_where_documents_meet(tmp_path: Path) -> None:
    """Between two boundaries lie the tokens of one document, and nothing is left out."""
    made = samples(token_file(tmp_path / "t", 3, 20, 5, 9, 1, 40))
    assert len(made) == (78 - 1) // 8
    for index in range(len(made)):
        sample = made[index]
        assert (sample.tokens.shape, sample.tokens.dtype) == ((9,), np.int64)
        assert (sample.boundaries[0], sample.boundaries[-1]) == (0, 9)
        documents = np.split(sample.tokens, sample.boundaries[1:-1])
        assert all(len(set(part.tolist())) == 1 for part in documents)
        assert all(one[0] != other[0] for one, other in itertools.pairwise(documents))


def test_an_epoch_reads_every_token_once(tmp_path: Path) -> None:
    """Of 78 tokens 9 samples of 8 inputs are made: each document as often as it is long, but for the rest."""
    made = samples(token_file(tmp_path / "t", 3, 20, 5, 9, 1, 40))
    read = np.bincount(np.concatenate([made[index].tokens[:-1] for index in range(len(made))]), minlength=6)
    assert (read <= [3, 20, 5, 9, 1, 40]).all()
    assert read.sum() == 72


def test_a_seed_is_an_order(tmp_path: Path) -> None:
    """The same seed gives the same samples, another one others."""
    reader = IndexedReader(token_file(tmp_path / "t", *range(1, 30)))
    orders = [
        [made[index].tokens.tolist() for index in range(len(made))]
        for made in (FileSamples(reader, sequence_length=8, wanted=100, seed=seed) for seed in (1, 1, 2))
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("index", [-1, 9])
def test_a_sample_beyond_the_end_is_an_index_error(tmp_path: Path, index: int) -> None:
    """Nothing wraps around, neither in a file nor in a blend."""
    made = samples(token_file(tmp_path / "t", 78))
    for some in (made, BlendedSamples([made], [1.0], 9)):
        with pytest.raises(IndexError, match="of 9"):
            some[index]


def test_a_split_without_a_token_is_an_error(tmp_path: Path) -> None:
    """Two documents leave nothing for validation: the file and its part are named, and nothing searches for ever."""
    files = [TokenFile(prefix=token_file(tmp_path / "t", 30, 30))]
    with pytest.raises(RunError, match=r"t\.bin holds no token") as caught:
        SampleMaker(sequence_length=8, seed=1).split(files, "969,30,1", (10, 1, 0))
    assert "0.969 to 0.999 of 2 sequences" in caught.value.why


@pytest.mark.parametrize("split", ["", "a,b", "0,0,0", "1,1,1,1", "1..2"])
def test_shares_that_divide_nothing_are_refused(split: str) -> None:
    """What holds no shares of three splits is named."""
    with pytest.raises(ConfigError, match="split cannot be"):
        split_spans(split)


def test_shares_need_not_add_up(tmp_path: Path) -> None:
    """969,30,1 are thousandths; shares that are left out are none."""
    assert split_spans("969,30,1") == ((0.0, 0.969), (0.969, pytest.approx(0.999)), (pytest.approx(0.999), 1.0))
    assert split_spans("3 1") == ((0.0, 0.75), (0.75, 1.0), None)


def test_a_part_that_is_too_small_for_its_share_is_an_error(tmp_path: Path) -> None:
    """A blend never reads one part's samples again in silence."""
    with pytest.raises(RunError, match="part 1 of the blend has 9 samples, and 10 are drawn"):
        BlendedSamples([samples(token_file(tmp_path / "t", 78))], [1.0], 10)


def test_a_mix_keeps_to_its_shares_at_every_step() -> None:
    """After any number of samples each part is less than two samples from its share."""
    mix = Mix.of([5, 3, 2], 1000)
    for number, share in enumerate((0.5, 0.3, 0.2)):
        drawn = np.cumsum(mix.parts == number)
        assert np.abs(drawn - share * np.arange(1, 1001)).max() < 2
        assert mix.samples[mix.parts == number].tolist() == list(range(drawn[-1]))


def test_samples_need_numpy_alone(tmp_path: Path) -> None:
    """No training library and no tokenizer is loaded to read samples."""
    code = "import sys, primus_core.data.datasets; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert not {"torch", "megatron", "tokenizers", "pyarrow", "sentencepiece"} & set(done.stdout.split())
