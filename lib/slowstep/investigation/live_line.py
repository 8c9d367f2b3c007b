"""The progress in a notebook: a bar with its line, one output that is overwritten."""

from __future__ import annotations

from html import escape
from typing import Any

from slowstep.text.visible import visible


def show_line(text: str, part: float | None, handle: Any) -> Any:
    """Show `text` in place of what `handle` showed before, and return the handle for the next time.

    A bar shows the `part`, 0 to 1, that is done at least; None if that is not known.
    """
    from IPython.display import display

    text = visible(text)
    done = "" if part is None else f' value="{part:.3f}"'
    bar = f'<progress max="1"{done} style="width: 100%"></progress><br>{escape(text)}'
    bundle = {"text/plain": text, "text/html": bar, "application/x-slowstep-progress": text}
    if handle is None:
        return display(bundle, raw=True, display_id=True)
    handle.update(bundle, raw=True)
    return handle
