"""The Megatron-LM back end of Primus."""

__version__ = "0.1.0"
