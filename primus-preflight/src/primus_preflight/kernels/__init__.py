"""The rank side of benchmarks: everything here runs in ranks and may import torch."""
