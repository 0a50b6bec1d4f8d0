"""Byte-pair encoding: splits text into pre-tokens, trains merges, and turns texts into ids."""
