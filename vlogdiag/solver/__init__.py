"""Memory sums: from what a run printed to what fits."""
