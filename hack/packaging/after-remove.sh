#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
# dpkg says what it does, rpm how many are left: none after a removal. Only a purge takes the key and what was not sent yet.
case "$1" in
purge) rm -rf /etc/atherops /var/lib/atherops-otel-agent ;;
remove | 0) echo "atherops-otel-agent: kept: /etc/atherops (settings, key), /var/lib/atherops-otel-agent (what was not sent yet)" ;;
esac
