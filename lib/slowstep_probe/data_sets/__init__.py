"""What the workers of a loader could not share of a data set, and what they would not see."""
