"""Program of the fork server."""

import socket
import sys

from manylabel_service import processes
from manylabel_service.forking.server import preload, serve

if __name__ == "__main__":
    processes.die_with_parent()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        preload()
        serve(control)
