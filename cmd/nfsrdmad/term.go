package main

import (
	"log/slog"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// breakShare bounds leases: a lease may take at most the breakShare-th part of
// the time that the host lets its processes wait for the daemon. A recall takes
// two leases and two thirds at most.
const breakShare = 3

// leaseTerm returns the lease of delegations: the value of --lease, unless the
// host would not wait that long.
func leaseTerm(asked time.Duration, log *slog.Logger) time.Duration {
	wait, err := posix.LeaseBreakTime()
	if err != nil {
		log.Warn("the host does not say how long its processes wait for leases; 45 s are taken for it", "err", err)
		wait = 45 * time.Second
	}
	return shortened(asked, wait, log)
}

// shortened is leaseTerm for a host that waits for the given time; 0 means for
// ever.
func shortened(asked, wait time.Duration, log *slog.Logger) time.Duration {
	most := wait / breakShare
	if wait == 0 || asked <= most {
		return asked
	}
	log.Warn("--lease is reduced to a third of fs.lease-break-time, the wait of processes of this host", "asked", asked, "lease", most)
	return most
}

// mayDelegate reports whether the host's processes wait for leases as long as a
// client of version 4 with the given lease may take to return a delegation.
func mayDelegate(lease time.Duration, log *slog.Logger) bool {
	wait, err := posix.LeaseBreakTime()
	return err != nil || longEnough(lease, wait, log)
}

// longEnough is mayDelegate for a host that waits for the given time; 0 means for
// ever.
func longEnough(lease, wait time.Duration, log *slog.Logger) bool {
	least := lease + 5*time.Second
	if wait == 0 || wait >= least {
		return true
	}
	log.Warn("clients of version 4 get no delegations, because processes of this host wait too short for them: raise fs.lease-break-time, or lower --nfs4-lease", "fs.lease-break-time", wait, "least", least)
	return false
}
