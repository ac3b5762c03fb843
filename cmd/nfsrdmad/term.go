package main

import (
	"log/slog"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// breakShare limits leases: a lease may take at most 1/breakShare of the time that the host
// lets its processes wait for the daemon. A recall takes at most two and two thirds leases.
const breakShare = 3

// leaseTerm returns the lease time for delegations: the value of --lease, unless the host
// would not wait that long.
func leaseTerm(asked time.Duration, log *slog.Logger) time.Duration {
	wait, err := posix.LeaseBreakTime()
	if err != nil {
		log.Warn("cannot read fs.lease-break-time, the time for which local processes wait for a recall; assuming 45 s", "err", err)
		wait = 45 * time.Second
	}
	return limitLease(asked, wait, log)
}

// limitLease returns the lease time for a host that waits for the given time; 0 means
// forever.
func limitLease(asked, wait time.Duration, log *slog.Logger) time.Duration {
	most := wait / breakShare
	if wait == 0 || asked <= most {
		return asked
	}
	log.Warn("--lease is reduced to a third of fs.lease-break-time, the time for which local processes wait for a recall", "asked", asked, "lease", most)
	return most
}

// mayDelegate reports whether the host's processes wait for leases as long as an NFSv4 client
// with the given lease time may take to return a delegation.
func mayDelegate(lease time.Duration, log *slog.Logger) bool {
	wait, err := posix.LeaseBreakTime()
	return err != nil || canAwaitRecall(lease, wait, log)
}

// canAwaitRecall reports whether a host that waits for the given time does so; 0 means
// forever.
func canAwaitRecall(lease, wait time.Duration, log *slog.Logger) bool {
	least := lease + 5*time.Second
	if wait == 0 || wait >= least {
		return true
	}
	log.Warn("not granting NFSv4 delegations, because local processes would not wait long enough for a recall: raise fs.lease-break-time, or lower --nfs4-lease", "fs.lease-break-time", wait, "least", least)
	return false
}
