"""An invented class that goes through every stage of grading, so that an instructor sees them."""
