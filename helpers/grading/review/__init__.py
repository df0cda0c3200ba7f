"""What waits for a person: shown, and decided."""
