"""The contrast of text with the colour that it stands on."""

from __future__ import annotations

from slowstep.report.chart import ON_COLOUR

WHITE = "#FFFFFF"


def text_on(ground: str) -> str:
    """Return the colour of text on a coloured ground: dark or white, whichever can be read better."""
    return max((ON_COLOUR, WHITE), key=lambda text: contrast(text, ground))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (`#RRGGBB`), from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    lighter, darker = sorted(map(_luminance, (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Return the relative luminance of a colour, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
