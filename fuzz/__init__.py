"""Fuzzers for everything that reads a file from outside, and the meter that counts their work.

    python -m fuzz warc --seconds 60 --seed 1     one target
    python -m fuzz all --seconds 60 --jobs 4      every target, each for that time

The time budget only ends a fuzzer: a hang is found by counting work, never by a clock.
"""
