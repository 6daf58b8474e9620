"""Launch commands: read from scripts and manifests, rewritten with a fix."""
