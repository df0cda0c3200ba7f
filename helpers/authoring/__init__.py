"""The maintainer's side: from a chapter's text to notebooks, and from notebooks to the book."""
