"""Objects that show themselves in JupyterLab."""

from __future__ import annotations

import importlib


class Shown:
    """A base class whose objects show themselves as HTML in a notebook.

    The drawing belongs to `slowstep.report`, which stands far to the right of what is drawn. So it is looked for only
    when a notebook asks.
    """

    def _repr_html_(self) -> str:
        return importlib.import_module("slowstep.report.cards").card(self)
