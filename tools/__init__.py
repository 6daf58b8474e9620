"""Generators and benchmarks; never imported by the package."""
