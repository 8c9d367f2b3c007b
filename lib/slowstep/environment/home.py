"""The folder in which params/ and outputs/ lie: the clone that the library belongs to, or the working directory."""

from __future__ import annotations

from pathlib import Path

CLONE = Path(__file__).resolve().parents[3]

ROOT = CLONE if (CLONE / "params").is_dir() and (CLONE / "notebooks").is_dir() else Path()
"""The clone, or where the library is installed without one, the working directory."""
