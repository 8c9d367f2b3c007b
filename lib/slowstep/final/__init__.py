"""The final configuration: what was supported and is allowed, searched jointly, confirmed, and written as files."""
