"""An entry that reads Megatron's own datasets to the last sample, for `test_data_order.py`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def read(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """Every case's samples, saved for each split as ``CASE-SPLIT.npy``: tokens, then where documents meet."""
    asked: Any = rank.prepared("cases")
    for number, case in enumerate(asked["cases"]):
        for name, dataset in zip(("train", "valid", "test"), _build(case), strict=True):
            if dataset is not None:
                rows = [_row(dataset[index]) for index in range(len(dataset))]
                np.save(Path(asked["folder"]) / f"{number}-{name}.npy", np.array(rows))
    return {}


def _build(case: dict[str, Any]) -> Any:
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    config = GPTDatasetConfig(
        random_seed=case["seed"],
        sequence_length=case["sequence_length"],
        tokenizer=SimpleNamespace(vocab_size=60_000, eod=0, pad=-1, unique_identifiers={}),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        inter_document_masking=True,
        **case["blends"],
    )
    return BlendedMegatronDatasetBuilder(GPTDataset, case["samples"], lambda: True, config).build()


def _row(sample: dict[str, Any]) -> Any:
    return np.concatenate([_tokens(sample), sample["cu_seqlens"].numpy()])


def _tokens(sample: dict[str, Any]) -> Any:
    return np.append(sample["tokens"].numpy(), sample["labels"].numpy()[-1])


def blend(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The samples of prepared data as the back end has Megatron make them; returns the training blend's weights."""
    from primus_backend_megatron.rank.data import Provider, prepared_sources, prepared_vocabulary

    asked: Any = rank.prepared("asked")
    data = rank.prepared("data")
    split = None if data["valid"] else asked["split"]
    provider = Provider(
        args=_arguments(),
        vocabulary=prepared_vocabulary(data),
        sources=prepared_sources(data, split),
        cache=f"{asked['folder']}/indices",
        on_start=lambda: None,
        warn=lambda _: None,
    )
    datasets = provider(asked["samples"])
    for name, dataset in zip(("train", "valid", "test"), datasets, strict=True):
        if dataset is not None:
            rows = [_tokens(dataset[index]) for index in range(len(dataset))]
            np.save(Path(asked["folder"]) / f"{name}.npy", np.array(rows))
    return {"weights": list(datasets[0].weights)}


def _arguments() -> Any:
    return SimpleNamespace(
        seed=1,
        seq_length=16,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask_in_dataloader=False,
        mmap_bin_files=True,
        num_dataset_builder_threads=1,
        multiple_validation_sets=False,
        full_validation=False,
        object_storage_cache_path=None,
        dataloader_fast_cache_load=False,
        dataloader_defer_npy_index_mmap=False,
        eval_iters=0,
    )
