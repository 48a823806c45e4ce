"""Models and datasets between stores: an archive of plain files, what is written to it, and what is made of it."""
