"""The file formats, one reader each; `manylabel_core.datasets.reading` lists them."""
