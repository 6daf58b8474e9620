"""YAML signatures: loaded, checked, compiled."""
