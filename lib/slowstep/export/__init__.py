"""Export of investigations to experiment trackers: the verdicts as metrics and tags, the reports as artifacts."""
