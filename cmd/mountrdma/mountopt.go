package main

import (
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/fusefs"
)

// mountOptions are the options that -o sets, in the words and with the defaults
// of nfs(5).
type mountOptions struct {
	*app // the options that are also flags: crc, inline, credits

	readOnly, noSUID, noDev, noExec, allowOther bool

	soft           bool
	timeo, retrans int // tenths of a second; repetitions

	rsize, wsize int // bytes; 0: the server's maximum

	connections int

	port, mountPort int // 0: the operand's
	mountHost       string

	noAC, sync                             bool
	noDeleg                                bool // use no delegations
	acRegMin, acRegMax, acDirMin, acDirMax int  // seconds
	lookup                                 fusefs.LookupCache

	background bool
	retry      int // minutes; below 0: the default of background

	notice     bool       // learn of the server's restarts over RoCE
	noticeFrom netip.Addr // of this host; invalid: the address that routes to the server

	note string // an unexpected consequence of an option, or ""
}

// newMountOptions returns the defaults of -o. Files on another host must not
// make a user root on this host: set-user-ID programs and devices must be asked
// for.
func newMountOptions(a *app) *mountOptions {
	return &mountOptions{
		app: a, noSUID: true, noDev: true, timeo: 600, retrans: 2, retry: -1, connections: 1, lookup: fusefs.LookupAll,
		acRegMin: 3, acRegMax: 60, acDirMin: 30, acDirMax: 60,
	}
}

// silence returns how long a server may give no sign of life.
func (o *mountOptions) silence() time.Duration { return time.Duration(o.timeo) * time.Second / 10 }

// giveUp returns how long a call waits for a server. Calls on a hard mount wait
// for ever. On a soft mount giveUp follows Linux for TCP and RDMA: timeo plus
// retrans times timeo, at most ten minutes.
func (o *mountOptions) giveUp() time.Duration {
	if !o.soft {
		return 0
	}
	return min(time.Duration(1+o.retrans)*o.silence(), maxGiveUp)
}

// patience returns how long to try to mount.
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
