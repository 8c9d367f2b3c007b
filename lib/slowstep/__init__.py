"""slowstep: why are my training steps slow, and what do I change? Answered by controlled experiments.

In a notebook: `from slowstep import open_investigation, report`, or `slowstep.open("python train.py --lr 1e-4")`.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The names that notebooks use, imported when they are first asked for: trial processes need none of them."""
    import importlib

    if name == "open_investigation":
        return importlib.import_module("slowstep.investigation").open_investigation
    if name == "open":
        return importlib.import_module("slowstep.investigation").open_command
    if name == "report":
        return importlib.import_module("slowstep.report")
    raise AttributeError(name)
