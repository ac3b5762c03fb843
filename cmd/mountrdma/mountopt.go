package main

import (
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/fusefs"
)

// mountOptions are what -o says of a mount, in the words and with the defaults of
// nfs(5).
type mountOptions struct {
	*app // the knobs that are flags too: crc, inline, credits

	readOnly, noSUID, noDev, noExec, allowOther bool

	soft           bool
	timeo, retrans int // tenths of a second; how often

	rsize, wsize int // octets; 0: as much as the server takes

	connections int

	port, mountPort int // 0: as the operand says
	mountHost       string

	noAC, sync                             bool
	noDeleg                                bool // hold nothing of the server's
	acRegMin, acRegMax, acDirMin, acDirMax int  // seconds
	lookup                                 fusefs.LookupCache

	background bool
	retry      int // minutes; below 0: by background

	notice     bool       // hear of the server's restarts over RoCE
	noticeFrom netip.Addr // of this host; invalid: that which leads to the server

	note string // what somebody may not expect of an option; "": nothing
}

// newMountOptions returns what holds where -o says nothing. A server that is not this host
// must not make somebody root here by its files: set-user-ID programs and devices are for
// who asks.
func newMountOptions(a *app) *mountOptions {
	return &mountOptions{
		app: a, noSUID: true, noDev: true, timeo: 600, retrans: 2, retry: -1, connections: 1, lookup: fusefs.LookupAll,
		acRegMin: 3, acRegMax: 60, acDirMin: 30, acDirMax: 60,
	}
}

// silence is how long a server may give no sign of life.
func (o *mountOptions) silence() time.Duration { return time.Duration(o.timeo) * time.Second / 10 }

// giveUp is how long a call waits for a server: for ever on a hard mount, and
// on a soft one as Linux has it for TCP and RDMA: timeo and retrans times timeo
// more, but ten minutes at most.
func (o *mountOptions) giveUp() time.Duration {
	if !o.soft {
		return 0
	}
	return min(time.Duration(1+o.retrans)*o.silence(), maxGiveUp)
}

// patience is how long to try to mount.
func (o *mountOptions) patience() time.Duration {
	switch {
	case o.retry >= 0:
		return time.Duration(o.retry) * time.Minute
	case o.background:
		return backgroundRetry
	default:
		return foregroundRetry
	}
}
