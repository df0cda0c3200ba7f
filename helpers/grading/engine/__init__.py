"""A whole class: judged by workers, recorded by one writer."""
