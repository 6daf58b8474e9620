"""Bytes of a log to records: where it comes from, what its headers say, which lines belong together."""
