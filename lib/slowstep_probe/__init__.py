"""What runs inside the interpreter that trains: the standard library and torch, and nothing of the kit.

It is started by the kit around a program that knows nothing of it. Python 3.10 and torch 2.6 are enough.
"""
