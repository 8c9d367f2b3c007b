"""Commands that train: which interpreter and which program they start, and how their options stand."""
