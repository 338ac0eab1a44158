"""What fairq claims, each line checked anew: ``fairq prove`` prints the table."""
