"""Stages of an ablation (gristmill/proxy): they read shards and eval suites, never documents."""
