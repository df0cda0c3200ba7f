"""What every figure has: a frame with number and caption, and a form for each theme."""
