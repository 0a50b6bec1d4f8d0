"""What a trainer imports. Needs numpy only; torch adapters and object stores are imported where they are used."""
