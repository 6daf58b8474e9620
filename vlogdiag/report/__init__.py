"""Findings to text: pure functions."""
