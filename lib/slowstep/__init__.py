"""slowstep: why are my training steps slow, and what do I change? Answered by controlled experiments.

In a notebook: `from slowstep import open_investigation, report`.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The two names that notebooks use, imported when they are first asked for: trial processes need neither."""
    import importlib

    if name == "open_investigation":
        return importlib.import_module("slowstep.investigation").open_investigation
    if name == "report":
        return importlib.import_module("slowstep.report")
    raise AttributeError(name)
