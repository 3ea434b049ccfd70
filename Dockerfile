# docker build -t antler .        compose.yaml runs it; docs/docker.md describes its contents.
# Another base, such as your own Debian 12 or newer, needs Python 3.11 or newer with venv below /usr.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build

ENV PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /src
COPY constraints.txt ./
RUN python3 -m venv /opt/app && /opt/app/bin/pip install -c constraints.txt --upgrade pip

# Packages for the agent's own code, 400 MB; --build-arg RUNTIME=no leaves them out.
ARG RUNTIME=yes
COPY constraints-sandbox.txt ./
COPY sandbox/__init__.py sandbox/base.py sandbox/policy.py sandbox/build_runtime.py ./sandbox/
RUN mkdir -p /opt/antler && { [ "$RUNTIME" = no ] || python3 -m sandbox.build_runtime --folder /opt/antler; }

# Antler's extras; --build-arg EXTRAS=scale,tracing,anthropic adds a vendor's chat models.
ARG EXTRAS=scale,tracing
# .dockerignore admits only the sources.
COPY . .
RUN /opt/app/bin/pip install -c constraints.txt --build-constraint constraints.txt ".[$EXTRAS]"

FROM ${BASE}

# tini ends processes that commands leave behind; git, ffmpeg and the fonts are for the agent's work: repositories,
# recordings, and charts and slides with Chinese text. --build-arg PACKAGES= installs nothing.
ARG PACKAGES="ca-certificates tini git ffmpeg fonts-noto-cjk bubblewrap"
RUN [ -z "$PACKAGES" ] || { apt-get update -q && apt-get install -y -q --no-install-recommends $PACKAGES \
    && rm -rf /var/lib/apt/lists/*; }

COPY --from=build /opt/app /opt/app
COPY --from=build /opt/antler /opt/antler

# The data folder is 0700 and belongs to the only user here. So do the folders in it that several processes share as
# volumes (compose.scale.yaml): a new volume inherits their owner.
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin antler \
    && install -d -o antler -g antler -m 0700 /data /data/threads /data/users /data/spool /data/skills /data/mcp \
    && install -d -m 0755 /config
ENV PATH=/opt/app/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    ANTLER__DATA_DIR=/data ANTLER__SANDBOX__RUNTIME=/opt/antler ANTLER__SANDBOX__USE=landlock
USER antler
WORKDIR /config
VOLUME /data

STOPSIGNAL SIGTERM
# A restart does not help after exit codes 77 (another program has taken over the last account) and 78 (the config).
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["antler", "status", "--check"]

ENTRYPOINT ["tini", "--", "antler"]
CMD ["run", "--config", "/config/config.yaml"]
