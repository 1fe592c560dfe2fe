"""Environment variables of NCCL, RCCL, Gloo, torch, HIP, HSA and CUDA: what is wrong with those that are set."""
