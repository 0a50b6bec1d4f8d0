"""What is measured of every document."""
