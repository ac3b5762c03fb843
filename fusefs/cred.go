package fusefs

import (
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A caller is an identity under which calls are made.
type caller struct {
	cred   rpcmsg.Cred
	client *nfsclient.Client
	until  time.Time
}

// same reports whether two callers are the same to the server.
func (c *caller) same(d *caller) bool {
	return c == d || c.cred.UID == d.cred.UID && c.cred.GID == d.cred.GID && slices.Equal(c.cred.GIDs, d.cred.GIDs)
}

// callers caches the callers of recent requests by process. The kernel passes
// user and group with each request, but not the supplementary groups.
type callers struct {
	client *nfsclient.Client

	mu  sync.Mutex
	all map[callerKey]*caller
}

type callerKey struct{ pid, uid, gid uint32 }

// of returns the caller of a request.
func (s *callers) of(from *fuse.Caller) *caller {
	key := callerKey{from.Pid, from.Uid, from.Gid}
	now := time.Now()
	s.mu.Lock()
	c := s.all[key]
	s.mu.Unlock()
	if c != nil && now.Before(c.until) {
		return c
	}
	next := &caller{
		cred:  rpcmsg.Cred{Flavor: s.client.Flavor(), UID: from.Uid, GID: from.Gid, GIDs: groups(from)},
		until: now.Add(callerLife),
	}
	next.client = s.client.As(next.cred)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxCallers {
		clear(s.all)
	}
	s.all[key] = next
	return next
}
