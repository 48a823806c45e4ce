"""The page that people look at: its files, which stand in `static`, as a server hands them out.

What is in `static` is the whole page: HTML, styles and modules as browsers take them, without a step in between. It
knows the server by the public HTTP interface alone, and this package knows nothing of models.

- `core/`: elements, calls, the key, events, formats; `parts/`: charts, tables and forms as custom elements
- `pages/`: one module for each page, loaded when it is first shown; `main.js`: the frame around them
"""

from manylabel_service.ui.files import INDEX, Files, UiFile

__all__ = ["INDEX", "Files", "UiFile"]
