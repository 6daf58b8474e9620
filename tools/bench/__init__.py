"""Speed as ratios: what vlogdiag costs beside another command in the same run."""
