"""Tables of the papers, on the data sets that they used."""
