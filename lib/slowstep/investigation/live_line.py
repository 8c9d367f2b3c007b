"""The progress line in a notebook: one output that is overwritten."""

from __future__ import annotations

from typing import Any

from slowstep.text.visible import visible


def show_line(text: str, handle: Any = None) -> Any:
    """Show `text` in place of what `handle` showed before, and return the handle for the next time."""
    from IPython.display import display

    text = visible(text)
    bundle = {"text/plain": text, "application/x-slowstep-progress": text}
    if handle is None:
        return display(bundle, raw=True, display_id=True)
    handle.update(bundle, raw=True)
    return handle
