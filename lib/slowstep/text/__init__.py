"""Text for people: words and figures, Markdown, and the one place that writes to a terminal."""
