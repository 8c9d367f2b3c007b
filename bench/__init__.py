"""What is timed. Nothing here is part of the test suite: times are printed and recorded, never asserted."""
