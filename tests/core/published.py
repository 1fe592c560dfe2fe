"""The published models that have a preset, and how large they are."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

MODELS = Path(str(files("primus_core"))) / "presets" / "models"

PUBLISHED = {
    "llama2_7B": 6.738,
    "llama2_13B": 13.016,
    "llama2_70B": 68.977,
    "llama3_8B": 8.030,
    "llama3_70B": 70.554,
    "llama3.1_8B": 8.030,
    "llama3.1_70B": 70.554,
    "llama3.1_405B": 405.85,
    "llama3.2_1B": 1.2358,
    "llama3.2_3B": 3.2127,
    "llama3.3_70B": 70.554,
    "llama4_17B16E": 107.77,  # 108.64 with the vision tower
    "llama4_17B128E": 400.71,
    "deepseek_v2": 235.74,
    "deepseek_v2_lite": 15.706,
    "deepseek_v3": 671.03,  # without the layer that predicts a second token
    "deepseek_r1_distill_qwen_1.5B": 1.777,
    "kimi_k2": 1026.4,
    "glm4_7": 352.8,  # 358.3 with the layer that predicts a second token
    "glm5": 744.0,
    "minimax_m2.5": 228.69,
    "mixtral_8x7B_v0.1": 46.703,
    "mixtral_8x22B_v0.1": 140.62,
    "grok1": 315.68,  # 316.49 in conversions that store the embedding a second time, as the output
    "grok2": 269.5,
    "gpt_oss_20B": 20.91,
    "gpt_oss_120B": 116.83,
    "qwen2.5_3B": 3.086,
    "qwen2.5_7B": 7.616,
    "qwen2.5_14B": 14.770,
    "qwen2.5_32B": 32.764,
    "qwen2.5_72B": 72.706,
    "qwen3_0.6B": 0.596,
    "qwen3_1.7B": 1.7206,
    "qwen3_4B": 4.0225,
    "qwen3_8B": 8.1907,
    "qwen3_14B": 14.768,
    "qwen3_32B": 32.762,
    "qwen3_30B_A3B": 30.532,
    "qwen3_235B_A22B": 235.09,
    "qwen3_5_35B_A3B": 34.66,  # the text model
    "lfm2_8B_A1B": 8.340,
}
"""Billions of parameters that the models' publishers count, or that their published weights have."""

OTHER_LAYERS = {"qwen3_5_35B_A3B", "lfm2_8B_A1B"}
"""Of these, models with gated delta nets or convolutions, which no back end tells the shape of."""

PARTS = {
    path.stem for path in MODELS.glob("*.yaml") if path.stem.endswith(("_base", "_rope", "_mla", "_linear", "yarn"))
}
"""Files that only others extend."""
HYBRIDS = {"mamba_370M", *(path.stem for path in MODELS.glob("zebra_llama_*.yaml"))} - PARTS
"""Models with layers of state space, whose publishers tell no number of parameters."""
PROXIES = {"qwen3_235B_A22B_4layer", "moe_515B", "moe_1T", "moe_2T", "moe_4T", "moe_proxy_single_node"}
"""Shapes to measure with, which nobody published."""
TINY = {"llama_tiny", "qwen3_moe_tiny", "deepseek_v3_tiny"}
