"""Long-context suites of `trireme evaluate`."""
