"""Kernels of the stage `scrub`."""
