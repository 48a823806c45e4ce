"""Tables of the papers, on the datasets that they used."""
