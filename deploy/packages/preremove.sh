#!/bin/sh
# deb: remove, upgrade or deconfigure; rpm: 0 at the last removal, 1 at an upgrade.
set -e
case "$1" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now outrider.service || true # it drains
	fi
	;;
esac
