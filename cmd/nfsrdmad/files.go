package main

import (
	"log/slog"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// neededFiles returns the maximum number of a daemon's connections, of which onRDMA are on
// RDMA, and the number of files that it should be able to open for them: half of that number
// is reserved for files in exports (posix.Options). The address tcp is "" without TCP.
func neededFiles(onRDMA int, tcp string) (connections int, files uint64) {
	connections = onRDMA
	if tcp != "" {
		connections += oncrpc.DefaultMaxConns
	}
	return connections, 2 * uint64(connections)
}

// warnAboutFileLimit warns if the open-files limit is too low for all connections.
func (o *serveOptions) warnAboutFileLimit(limit func() (uint64, error), log *slog.Logger) {
	n, err := limit()
	connections, enough := neededFiles(o.maxConns, o.tcp)
	if err != nil || n >= enough {
		return
	}
	log.Warn("the open-files limit is too low: each connection uses one file, and half of the limit is reserved for files in exports; raise the limit (ulimit -Hn, or LimitNOFILE= of the unit), or lower --max-connections",
		"limit", n, "connections", connections, "enough", enough)
}
