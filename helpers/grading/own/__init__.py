"""One's own work, judged as a class's is, by nobody but oneself."""
