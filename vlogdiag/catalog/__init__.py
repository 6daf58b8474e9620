"""What vLLM knows, by version: flags, environment variables, metrics."""
