# The server in an image: docker build -t manylabel .
#
# Two stages: pip and build files stay in the first. The learners' functions are compiled there for processors with AVX2 and for
# all others, so that a container compiles nothing, whatever machine it runs on.

FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/manylabel
WORKDIR /src
# Dependencies first: a change of the code does not reinstall them.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = project['optional-dependencies']; \
        print(*project['dependencies'], *(d for e in ('core', 'server') for d in extras[e] if not d.startswith('manylabel')), sep='\n')" > dependencies.txt \
    && /opt/manylabel/bin/pip install --constraint constraints.txt --requirement dependencies.txt
COPY README.md LICENSE ./
COPY core core
COPY service service
COPY clients clients
RUN /opt/manylabel/bin/pip install --constraint constraints.txt --no-deps . && /opt/manylabel/bin/python -m manylabel_core.kernels ship

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent manylabel \
    && install -d -m 0700 -o manylabel -g manylabel /var/lib/manylabel /var/lib/manylabel-blobs \
    && install -d -o manylabel -g manylabel /var/cache/manylabel /var/log/manylabel
COPY --from=build /opt/manylabel /opt/manylabel
ENV PATH=/opt/manylabel/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/var/cache/manylabel \
    MANYLABEL_HOST=0.0.0.0 \
    MANYLABEL_PORT=8000 \
    MANYLABEL_DATA_DIR=/var/lib/manylabel
USER manylabel
WORKDIR /var/lib/manylabel
RUN python -W error -c "from manylabel_core.kernels import TIERS, count; stored, total = count(TIERS); assert stored == total" \
    && manylabel --help > /dev/null
EXPOSE 8000
# Liveness, not readiness: a replica that waits for Redis must not be restarted.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-S", "-c", "import os, ssl, urllib.request as r; r.urlopen('http' + 's' * ('MANYLABEL_TLS_CERT_FILE' in os.environ) + '://127.0.0.1:' + os.environ['MANYLABEL_PORT'] + '/livez', timeout=2, context=ssl._create_unverified_context())"]
# The program of `manylabel serve`, without the rest of the command; same flags.
CMD ["python", "-P", "-m", "manylabel_service"]
