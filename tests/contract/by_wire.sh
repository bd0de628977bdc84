#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs a program in a network namespace of its own, whose loopback interface is up.
# Exit 77: such namespaces cannot be made here.
if [ "$(id -u)" = 0 ]; then
	unshare='unshare --net'
else
	unshare='unshare --net --map-root-user'
fi
if ! reason=$($unshare true 2>&1); then
	echo "skipped: no network namespaces: $reason"
	exit 77
fi
exec $unshare sh -c 'ip link set lo up && exec "$@"' sh "$@"
