"""What is changed in torch and TorchTitan, and planned in `primus_backend_torchtitan.patch_table`."""
