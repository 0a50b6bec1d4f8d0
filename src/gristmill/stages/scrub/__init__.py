"""Personal data and secrets: found, and replaced."""
