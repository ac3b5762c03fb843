package nfs4server

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
)

// canceledContext is the context for lookups that must not wait.
var canceledContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// clientAddr returns the caller's address, whose share of lookups is used.
func (x *compound) clientAddr() netip.Addr {
	if x.call.Peer == nil {
		return netip.Addr{}
	}
	return x.call.Peer.Addr.Addr()
}

// maxNameWait is the time that one COMPOUND waits for names before its last wait: a list may
// name thousands of users, which a slow user database returns one by one.
const maxNameWait = 5 * time.Second

// ownerString returns the owner string for a number: a name, or its digits in b. It waits for a
// name that is not cached, without the permit for o's export. A COMPOUND waits in vain only
// once, and at most for maxNameWait: if the user database does not respond, no translation
// exists, and numbers indicate that (RFC 8881, Section 5.9). With cachedNamesOnly set, it does
// not wait, and sets nameMissing.
func (x *compound) ownerString(ctx context.Context, o *object, kind idmap.Kind, id uint32, b []byte) ([]byte, nfs4.Status) {
	m := x.server.owners
	owner, err := m.Owner(canceledContext, x.clientAddr(), kind, id, b)
	switch {
	case err == nil:
		return owner, nfs4.OK
	case x.cachedNamesOnly && !x.skipNameWait:
		x.nameMissing = true
		return nil, nfs4.ErrDelay
	}
	if !x.skipNameWait {
		x.releasePermits()
		since := time.Now()
		owner, err = m.Owner(ctx, x.clientAddr(), kind, id, b)
		x.nameWait += time.Since(since)
		if err := x.acquirePermit(ctx, o); err != nil {
			return nil, x.toStatus(err)
		}
		x.skipNameWait = err != nil || x.nameWait >= maxNameWait
	}
	if err != nil {
		owner = strconv.AppendUint(b, uint64(id), 10)
	}
	return owner, nfs4.OK
}

// ownerID returns the number for an owner string to be set. It waits for a name that is not
// cached, without the permit for the current object's export. After maxNameWait the client must
// try again, and finds the names so far in the cache.
func (x *compound) ownerID(ctx context.Context, kind idmap.Kind, owner []byte) (uint32, nfs4.Status) {
	m := x.server.owners
	id, ok, err := m.ID(canceledContext, x.clientAddr(), kind, owner)
	if err != nil && x.nameWait < maxNameWait {
		x.releasePermits()
		since := time.Now()
		id, ok, err = m.ID(ctx, x.clientAddr(), kind, owner)
		x.nameWait += time.Since(since)
		if err := x.acquirePermit(ctx, &x.current); err != nil {
			return 0, x.toStatus(err)
		}
	}
	switch {
	case err != nil:
		return 0, nfs4.ErrDelay
	case !ok:
		return 0, nfs4.ErrBadOwner
	}
	return id, nfs4.OK
}

// canonicalOwner returns the owner string that GETATTR returns for the same user or group, for
// a comparison. It returns an unknown owner unchanged.
func (x *compound) canonicalOwner(ctx context.Context, kind idmap.Kind, owner []byte) ([]byte, nfs4.Status) {
	id, status := x.ownerID(ctx, kind, owner)
	switch status {
	case nfs4.OK:
		return x.ownerString(ctx, &x.current, kind, id, nil)
	case nfs4.ErrBadOwner:
		status = nfs4.OK
	}
	return owner, status
}
