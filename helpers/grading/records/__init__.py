"""What is known of an assignment and of its grades: the gradebook, the results, the files."""
