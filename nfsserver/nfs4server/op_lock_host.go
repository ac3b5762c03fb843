package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// useHostLocks makes LOCK or LOCKT of the current file consider locks of host processes, if the
// file system can.
func (x *compound) useHostLocks(ctx context.Context, args *nfs4state.Lock) {
	if open := x.current.use.HostLocks(ctx, x.current.h); open != nil {
		args.Storage = x.current.use.Export
		args.Host = func() (nfs4state.HostLocks, nfs4.Status) { return open() }
	}
}
