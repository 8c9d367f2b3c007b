"""Several nodes: how they find each other, prove that they belong together, and are asked for their ranks."""
