"""Where student code runs: no way out, caps on everything, an end when we say so."""
