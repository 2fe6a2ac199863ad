#!/bin/sh
# deb: remove, purge, upgrade and others; rpm: 0 at the last removal, 1 at an upgrade.
set -e
case "$1" in
remove | purge | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl daemon-reload || true
	fi
	;;
esac
# The state folder of the unit has SQLite files, which may hold messages: only a purge removes it. With DynamicUser the first is a link to the second.
if [ "$1" = purge ]; then
	rm -rf "${DPKG_ROOT:-}/var/lib/outrider" "${DPKG_ROOT:-}/var/lib/private/outrider"
	# What an operator added, such as drop-ins of the unit and certificates, stays.
	rmdir "${DPKG_ROOT:-}/etc/outrider" 2>/dev/null || true
fi
