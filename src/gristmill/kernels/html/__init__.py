"""Pages before they are parsed: how large and deep their tree would be, and their `<meta>` tags."""
