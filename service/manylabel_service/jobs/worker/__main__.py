"""Program of a training worker: ``python -m manylabel_service.jobs.worker [flags]``, with the flags of a server."""

import sys

import structlog

from manylabel_service.errors import ServiceError
from manylabel_service.programs import start
from manylabel_service.settings import WorkerSettings
from manylabel_service.storage.address import is_redis

log = structlog.get_logger()


def main() -> int:
    """Run tasks of jobs until SIGTERM or SIGINT.

    Returns
    -------
    int
        The exit status: 0 after a clean stop, 1 if the worker could not start, 2 for wrong settings.
    """
    settings = start(sys.argv[1:], WorkerSettings)
    if not is_redis(settings.store):
        sys.stderr.write("manylabel worker: error: store: must be the redis:// address that the servers have\n")
        return 2
    # Imported here: numerical libraries take seconds to import, and --help and wrong flags need none.
    from manylabel_service.jobs.worker.rq_worker import RQWorkerProcess

    worker = RQWorkerProcess(settings)
    try:
        worker.open()
        worker.work()
    except ServiceError as error:
        log.error("cannot_start", error=str(error))
        return 1
    finally:
        worker.close()
        log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
