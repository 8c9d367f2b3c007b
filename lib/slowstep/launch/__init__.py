"""The process of a trial: how it is forked, guarded, asked, and ended with its whole process tree."""
