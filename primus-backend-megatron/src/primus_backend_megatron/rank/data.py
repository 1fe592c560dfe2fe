"""The datasets of a run: Megatron's own, over the token files that the preparation made."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

from primus_core.errors import ConfigError, RunError

if TYPE_CHECKING:
    from megatron.core.datasets.gpt_dataset import GPTDatasetConfig

SPLITS = ("train", "valid", "test")
DEFAULT_SPLIT = "969,30,1"
"""Megatron's, where one data set serves all three splits and `split` is not set."""

Blend = tuple[list[str], list[float] | None]
"""Prefixes of token files, and their weights; None: a single file."""
Span = tuple[float, float] | None
"""A part of a data set, from 0 to 1."""


@frozen(kw_only=True)
class Vocabulary:
    """All that Megatron's datasets ask of a tokenizer. The token files are made; nothing is tokenized here."""

    kind: str
    model: str | None
    vocab_size: int
    eod: int | None
    """The token that ends a document; None where nobody knows it."""
    pad: int = -1
    """No token: the files hold none that means padding."""

    @property
    def unique_identifiers(self) -> dict[str, object]:
        """What the names of Megatron's index caches are made of."""
        return {"class": self.kind, "model": self.model, "vocab_size": self.vocab_size, "eod": self.eod}


def mock_vocabulary(vocab_size: int) -> Vocabulary:
    """For generated data: every document ends with the last token."""
    return Vocabulary(kind="mock", model=None, vocab_size=vocab_size, eod=vocab_size - 1)


def prepared_vocabulary(prepared: Mapping[str, Any]) -> Vocabulary:
    """Of a finished data preparation."""
    told = prepared["tokenizer"]
    return Vocabulary(kind=told["type"], model=told["model"], vocab_size=told["vocab_size"], eod=told["eod"])


@frozen(kw_only=True)
class Sources:
    """The token files of each split: one blend that is divided, or one blend for each."""

    shared: Blend | None = None
    split: str | None = None
    """How ``shared`` is divided: three weights."""
    separate: tuple[Blend | None, ...] | None = None
    documents: tuple[int, ...] = ()
    """Number of documents of each file of ``shared``."""

    def prefixes(self) -> list[str]:
        """Of all token files, in order."""
        blends = (self.shared,) if self.separate is None else self.separate
        return [prefix for blend in blends if blend for prefix in blend[0]]


def prepared_sources(prepared: Mapping[str, Any], split: str | None) -> Sources:
    """The files that a finished data preparation names.

    Raises:
        ConfigError: `split` is set although each split has its own data, or a split is missing.
    """
    files = {name: cast("Sequence[Mapping[str, Any]]", prepared.get(name) or ()) for name in SPLITS}
    if not files["train"]:
        raise ConfigError("there is no training data", where="train_data_path", remedy="Set train_data_path.")
    if not files["valid"] and not files["test"]:
        documents = tuple(int(file["documents"]) for file in files["train"])
        return Sources(shared=_blend(files["train"]), split=split or DEFAULT_SPLIT, documents=documents)
    if not files["valid"]:
        raise ConfigError(
            "test_data_path is set, but valid_data_path is not",
            where="test_data_path",
            why="Megatron evaluates on both or on none",
            remedy="Set valid_data_path too, or use split.",
        )
    if split:
        raise ConfigError(
            "split divides one data set, but valid_data_path or test_data_path is set too",
            where="split",
            remedy="Remove split, or the paths of the other splits.",
        )
    return Sources(separate=tuple(_blend(files[name]) if files[name] else None for name in SPLITS))


def _blend(files: Sequence[Mapping[str, Any]]) -> Blend:
    """The weights that were asked for, else each file's share of the tokens.

    Megatron itself would build one epoch of several files without weights, and training would end with it.

    Raises:
        ConfigError: only some of the files have a weight.
    """
    prefixes = [str(file["prefix"]) for file in files]
    weights = [file["weight"] for file in files]
    if any(weight is None for weight in weights):
        if any(weight is not None for weight in weights):
            told = ", ".join(f"{prefix}: {weight}" for prefix, weight in zip(prefixes, weights, strict=True))
            raise ConfigError(
                "only some of the data paths have a weight", why=told, remedy="Give all a weight, or none."
            )
        weights = [file["tokens"] for file in files]
    return prefixes, [float(weight) for weight in weights] if len(files) > 1 else None


def check_document_ends(args: Namespace, vocabulary: Vocabulary) -> None:
    """Refuse parameters that act at the ends of documents where these cannot be told.

    Raises:
        ConfigError: naming the first such parameter.
    """
    names = ("reset_position_ids", "reset_attention_mask", "eod_mask_loss")
    asked = [name for name in names if getattr(args, name)]
    if asked and vocabulary.eod is None:
        raise ConfigError(
            f"{asked[0]} needs the token that ends a document, which this data does not tell",
            where=asked[0],
            why=f"tokenizer {vocabulary.kind} {vocabulary.model or ''}".rstrip(),
            remedy="Name the tokenizer that the token files were made with, or remove the parameter.",
        )


@frozen(kw_only=True)
class Provider:
    """Megatron calls it with the number of samples it wants of each split."""

    args: Namespace
    vocabulary: Vocabulary
    sources: Sources | None
    """None: generated data."""
    cache: str
    """Folder for the index files of the datasets."""
    on_start: Callable[[], None]
    warn: Callable[[str], None]
    is_distributed: bool = True
    """Every rank calls it; those that need no data get none."""

    def __call__(self, samples: Sequence[int | None], vp_stage: int | None = None) -> list[Any]:
        """The train, valid and test datasets, None where a rank or a run needs none.

        Raises:
            RunError: the train split holds no document.
        """
        from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
        from megatron.core.datasets.gpt_dataset import GPTDataset, MockGPTDataset

        self.on_start()
        kind = GPTDataset if self.sources else MockGPTDataset
        config = self._config(samples)
        built = BlendedMegatronDatasetBuilder(kind, list(samples), lambda: needs_data(self.args, vp_stage), config)
        return cast("list[Any]", built.build())

    def _config(self, samples: Sequence[int | None]) -> GPTDatasetConfig:
        from megatron.core.datasets.gpt_dataset import GPTDatasetConfig

        args = self.args
        config = GPTDatasetConfig(
            random_seed=args.seed,
            sequence_length=args.seq_length,
            tokenizer=self.vocabulary,
            reset_position_ids=args.reset_position_ids,
            reset_attention_mask=args.reset_attention_mask,
            eod_mask_loss=args.eod_mask_loss,
            create_attention_mask=args.create_attention_mask_in_dataloader,
            path_to_cache=self.cache if self.sources else None,
            mmap_bin_files=args.mmap_bin_files,
            num_dataset_builder_threads=args.num_dataset_builder_threads,
            multiple_validation_sets=args.multiple_validation_sets,
            full_validation=args.full_validation,
            object_storage_cache_path=args.object_storage_cache_path,
            fast_cache_load=args.dataloader_fast_cache_load,
            defer_npy_index_mmap=args.dataloader_defer_npy_index_mmap,
            **self._blends(samples),
        )
        if config.split_matrix:
            config.split_matrix = self._usable_spans(config.split_matrix, samples)
        return config

    def _blends(self, samples: Sequence[int | None]) -> dict[str, Any]:
        if self.sources is None:
            return {}
        if self.sources.separate is None:
            return {"blend": self.sources.shared, "split": self.sources.split}
        pairs = zip(self.sources.separate, samples, strict=True)
        return {"blend_per_split": [blend if wanted != 0 else None for blend, wanted in pairs]}

    def _usable_spans(self, matrix: Sequence[Span], samples: Sequence[int | None]) -> list[Span]:
        """The splits that samples are drawn from, without those that hold none.

        In a split without a document Megatron would search for samples for ever.
        """
        spans: list[Span] = []
        for name, span, wanted in zip(SPLITS, matrix, samples, strict=True):
            empty = wanted != 0 and span is not None and self._is_empty(span)
            if empty:
                self._tell_empty(name)
            spans.append(None if empty or wanted == 0 else span)
        if spans[1] is None:
            # Megatron evaluates on both splits or on none.
            self.args.eval_iters = 0
        return spans

    def _is_empty(self, span: tuple[float, float]) -> bool:
        documents = self.sources.documents if self.sources else ()
        return any(round(span[0] * n) == round(span[1] * n) for n in documents)

    def _tell_empty(self, name: str) -> None:
        split = self.sources.split if self.sources else None
        documents = ", ".join(map(str, self.sources.documents)) if self.sources else ""
        why = f"split {split} of {documents} documents"
        if name == "train":
            raise RunError(f"the {name} split holds no document", where="split", why=why, remedy="Use more documents.")
        self.warn(f"no evaluation on the {name} split, which holds no document: {why}")


def needs_data(args: Namespace, vp_stage: int | None = None) -> bool:
    """This rank reads samples: the first rank of each tensor-parallel group, on the stages that use any."""
    from megatron.core import mpu

    return bool(mpu.get_tensor_model_parallel_rank() == 0 and (stage_keys(args, vp_stage) or args.iterations_to_skip))


def stage_keys(args: Namespace, vp_stage: int | None = None) -> tuple[str, ...]:
    """The parts of a sample that this pipeline stage uses."""
    from megatron.core import mpu

    first = mpu.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    last = mpu.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    # The layers of multi-token prediction embed the tokens once more.
    embeds = first or _predicts_more_tokens(args, vp_stage)
    masked = ("attention_mask",) if args.create_attention_mask_in_dataloader else ()
    inputs = ("tokens", "position_ids") if embeds else ()
    targets = ("labels", "loss_mask") if last or (embeds and not first) else ()
    return inputs + targets + masked


def _predicts_more_tokens(args: Namespace, vp_stage: int | None) -> bool:
    if not args.mtp_num_layers:
        return False
    from megatron.core.transformer.multi_token_prediction import mtp_on_this_rank
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    layout = args.pipeline_model_parallel_layout
    if isinstance(layout, str):
        layout = PipelineParallelLayerLayout.from_str(layout, args.pipeline_model_parallel_size)
    return bool(mtp_on_this_rank(layout, args.mtp_num_layers, ignore_virtual=False, vp_stage=vp_stage))
