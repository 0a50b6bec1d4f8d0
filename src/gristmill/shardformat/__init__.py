"""The shard format, which the shard writer and the loader share. It needs only numpy."""
