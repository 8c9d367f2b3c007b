"""The processes around a program: the warm interpreter that forks it, the guard that ends it, and the wire between."""
