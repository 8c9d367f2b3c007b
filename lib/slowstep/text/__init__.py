"""Text that others wrote, made safe to show: nothing hidden in it, Markdown, and the one place that writes to a terminal."""
