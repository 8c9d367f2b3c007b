"""Text that others wrote, made safe to show, and the one place that writes to a terminal."""
