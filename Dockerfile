# docker build -t antler .
# docker run -d --name antler -v antler-data:/data -v ./config.yaml:/config/config.yaml:ro --env-file antler.env antler
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY constraints.txt ./
RUN pip install -c constraints.txt --upgrade pip

# Packages for the agent's own code, 400 MB; --build-arg RUNTIME=no leaves them out.
ARG RUNTIME=yes
COPY constraints-sandbox.txt ./
COPY sandbox/__init__.py sandbox/base.py sandbox/policy.py sandbox/build_runtime.py ./sandbox/
RUN [ "$RUNTIME" = no ] || python -m sandbox.build_runtime --folder /opt/antler

# .dockerignore lets only the sources in.
COPY . .
RUN pip install -c constraints.txt --build-constraint constraints.txt '.[tracing]'

# The data folder is 0700 and belongs to the one user who runs here.
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin antler \
    && install -d -o antler -g antler -m 0700 /data \
    && install -d -m 0755 /config
ENV ANTLER__DATA_DIR=/data ANTLER__SANDBOX__RUNTIME=/opt/antler
USER antler
WORKDIR /config
VOLUME /data

STOPSIGNAL SIGTERM
# Exit codes after which a restart does not help: 77 another program has taken over the last account, 78 the config.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["antler", "status", "--check"]

ENTRYPOINT ["antler"]
CMD ["run", "--config", "/config/config.yaml"]
