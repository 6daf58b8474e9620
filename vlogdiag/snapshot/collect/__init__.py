"""Collectors: each turns one side of a server, alive or dead, into facts for a bug report; none fails the whole."""
