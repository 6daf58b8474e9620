"""The machine beside the log: GPUs, the server's metrics, the host."""
