#!/bin/bash
# As the image's own: root starts its programs as another user, and starts them anew when they end.
unset HOSTNAME
as_user() { exec setpriv --reuid "$USER_UID" --regid "$USER_GID" --clear-groups "$@"; }
(as_user sleep 2147483001) &
while :; do (as_user python3 -I /opt/api/server.py); done
