"""A layout that models are divided by."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from primus_core.experiment import Value


@frozen
class Layout:
    """So many ranks, and how they divide the model."""

    ranks: int
    params: Mapping[str, Value]

    @property
    def staged(self) -> bool:
        """The model is cut into stages."""
        return "pipeline_model_parallel_size" in self.params

    @property
    def name(self) -> str:
        """In the words of the parameters."""
        words = [f"{name.rpartition('.')[2]} {value}" for name, value in self.params.items()]
        return ", ".join([f"{self.ranks} ranks", *words])
