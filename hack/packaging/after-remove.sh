#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
# Only a purge takes the key and what was not sent yet.
if [ "$1" = purge ]; then rm -rf /etc/atherops /var/lib/atherops-otel-agent; fi
