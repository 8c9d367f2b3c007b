"""Changes to a program that are made where it makes its objects: its files, and its words, stay as they are."""
