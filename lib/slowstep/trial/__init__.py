"""The inside of a trial: what runs in the process that trains, and what it says to the one that measures."""
