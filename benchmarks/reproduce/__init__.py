"""Tables of the papers, on the same datasets."""
