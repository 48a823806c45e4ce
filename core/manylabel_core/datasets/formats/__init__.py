"""Readers of the file formats, one per format; `manylabel_core.datasets.reading` lists them."""
