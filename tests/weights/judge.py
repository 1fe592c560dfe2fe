"""Reads lines ``FOLDER<tab>FILE`` and answers with the largest difference of `transformers`' logits from a file's."""

from __future__ import annotations

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
print("started", flush=True)

import torch  # noqa: E402  # what is slow comes after the answer above
from transformers import AutoModelForCausalLM  # noqa: E402  # as above

torch.set_num_threads(1)
for line in sys.stdin:
    folder, file = line.rstrip("\n").split("\t")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    seen = torch.load(file)
    with torch.no_grad():
        logits = model(seen["tokens"]).logits
    found = seen["logits"][..., : logits.shape[-1]]
    print(float((logits - found).abs().max()), float(logits.abs().max()), type(model).__name__, flush=True)
