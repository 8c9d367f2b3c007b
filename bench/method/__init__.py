"""The worked example of docs/method.md: one comparison that was measured, judged by the library and drawn."""
