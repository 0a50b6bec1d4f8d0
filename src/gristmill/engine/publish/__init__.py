"""What a run leaves: its record, the folder of shards for a trainer; and the collection of garbage."""
