"""Web UI: the files in `static`, and their delivery by a server.

`static` has the complete UI: HTML, styles and modules, which browsers load without a build step. It uses only the
public HTTP interface, and this package is independent of models.

- `core/`: elements, calls, the key, events, formats; `parts/`: charts, tables and forms as custom elements
- `pages/`: one module for each page, loaded when it is first shown; `main.js`: the frame around them
"""

from manylabel_service.ui.files import INDEX, Files, UiFile

__all__ = ["INDEX", "Files", "UiFile"]
