"""What a run leaves: its record, the folder of shards that a trainer is given, and what may go again."""
