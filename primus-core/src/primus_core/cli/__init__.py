"""The commands of ``primus`` and ``primus-cli``. Each is imported only when it is called."""
