package nfs4server

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// ended is a context for questions that must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// client returns the address of the caller, whose share of lookups is used.
func (x *compound) client() netip.Addr {
	if x.call.Peer == nil {
		return netip.Addr{}
	}
	return x.call.Peer.Addr.Addr()
}

// maxNaming is how long one COMPOUND waits for names before the last wait: a list may
// name thousands of users that a slow user database is asked for one by one.
const maxNaming = 5 * time.Second

// ownerString returns the owner string of a number: a name, or its digits in b.
// A name that is not cached is waited for, without the permit of o's export. A
// COMPOUND waits in vain only once, and at most for maxNaming: if the user database does
// not answer, no translation exists, and numbers say so (RFC 8881, Section 5.9). A
// hurried COMPOUND does not wait, and notes that the name is unknown.
func (x *compound) ownerString(ctx context.Context, o *object, kind idmap.Kind, id uint32, b []byte) ([]byte, nfs4.Status) {
	m := x.server.owners
	owner, err := m.Owner(ended, x.client(), kind, id, b)
	switch {
	case err == nil:
		return owner, nfs4.OK
	case x.hurried && !x.unnamed:
		x.unknown = true
		return nil, nfs4.ErrDelay
	}
	if !x.unnamed {
		x.rest()
		since := time.Now()
		owner, err = m.Owner(ctx, x.client(), kind, id, b)
		x.naming += time.Since(since)
		if err := x.work(ctx, o); err != nil {
			return nil, x.status(err)
		}
		x.unnamed = err != nil || x.naming >= maxNaming
	}
	if err != nil {
		owner = strconv.AppendUint(b, uint64(id), 10)
	}
	return owner, nfs4.OK
}

// ownerID returns the number of an owner string to be set. A name that is not
// cached is waited for, without the permit of the current object's export. After
// maxNaming the client must ask again, and finds the names so far in the cache.
func (x *compound) ownerID(ctx context.Context, kind idmap.Kind, owner []byte) (uint32, nfs4.Status) {
	m := x.server.owners
	id, ok, err := m.ID(ended, x.client(), kind, owner)
	if err != nil && x.naming < maxNaming {
		x.rest()
		since := time.Now()
		id, ok, err = m.ID(ctx, x.client(), kind, owner)
		x.naming += time.Since(since)
		if err := x.work(ctx, &x.current); err != nil {
			return 0, x.status(err)
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

// canonicalOwner returns the owner string that GETATTR has for the user or group
// of another one, for a comparison. A string that stands for nobody stays.
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
