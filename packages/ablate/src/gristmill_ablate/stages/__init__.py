"""Stages of an ablation (../proxy): they read shards and eval suites, never documents."""
