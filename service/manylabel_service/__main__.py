"""Program of the server: ``python -m manylabel_service [flags]``."""

import gc
import sys

from manylabel_service.programs import start


def main() -> int:
    """Run the server with settings from flags, environment and file.

    Returns
    -------
    int
        The exit status: 0 after a clean stop, 1 if the server could not start or stop cleanly, 2 for wrong settings.
    """
    gc.disable()  # garbage collection of permanent objects takes an eighth of the startup; `run` enables it
    settings = start(sys.argv[1:])
    # Imported here: numerical libraries take seconds to import; --help, wrong flags and a parent of workers need none.
    if settings.workers > 1:
        from manylabel_service.server.workers import supervise

        return supervise(settings)
    from manylabel_service.server.process import serve

    return serve(settings)


if __name__ == "__main__":
    sys.exit(main())
