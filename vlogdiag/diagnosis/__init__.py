"""Records to findings: detections, facts of a run, incidents, advice."""
