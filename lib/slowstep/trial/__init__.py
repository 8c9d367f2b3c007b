"""The inside of a trial: the code of the process that trains, and its messages to the process that measures."""
