package main

import (
	"log/slog"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// filesFor returns how many connections a daemon has at most, with onRDMA of them
// on RDMA, and how many files it should be able to open for that: half of them are
// left to the files of exports (posix.Options). The address tcp is "" without TCP.
func filesFor(onRDMA int, tcp string) (connections int, files uint64) {
	connections = onRDMA
	if tcp != "" {
		connections += oncrpc.DefaultMaxConns
	}
	return connections, 2 * uint64(connections)
}

// warnOfFiles warns if the limit of open files is too low for all connections.
func (o *serveOptions) warnOfFiles(limit func() (uint64, error), log *slog.Logger) {
	n, err := limit()
	connections, enough := filesFor(o.maxConns, o.tcp)
	if err != nil || n >= enough {
		return
	}
	log.Warn("too few files may be open: each connection takes one, and half of all are for the exports' files; raise the limit (ulimit -Hn, or LimitNOFILE= of the unit), or lower --max-connections",
		"limit", n, "connections", connections, "enough", enough)
}
