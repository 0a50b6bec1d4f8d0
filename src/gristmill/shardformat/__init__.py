"""What the writer of shards writes and the loader reads, described once. Needs numpy only."""
