"""How Sphinx makes a site of this folder: `make docs`. The pages are plain Markdown, which reads as well without it."""

import sys
from importlib.metadata import version as release_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "ManyLabel"
author = project_copyright = "The ManyLabel developers"
version = release = release_of("manylabel")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs._site.navigation",
    "docs._site.http_reference",
    "docs._site.python_reference",
    "docs._site.self_contained",
]
root_doc = "index"
exclude_patterns = ["_*"]

myst_heading_anchors = 6  # as GitHub names headings, so that links lead to the same places there and here
default_role = "literal"  # names in docstrings stand between single backticks
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # as :ivar: names lose the underscore at their end

html_theme = "furo"
html_title = "ManyLabel"
html_static_path: list[str] = []
html_extra_path = ["llms.txt"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
