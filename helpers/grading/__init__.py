"""The instructor's side: grading work that nobody vouches for."""
