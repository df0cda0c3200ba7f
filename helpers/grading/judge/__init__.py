"""From the bytes of one submission to a verdict on each exercise."""
