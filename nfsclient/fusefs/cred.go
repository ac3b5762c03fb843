package fusefs

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A caller is an identity under which calls are sent.
type caller struct {
	cred    rpcmsg.Cred
	client  *nfsclient.Client
	denied  bool // its groups are not known: client sends no call that needs rights
	expires time.Time
}

// isSame reports whether the server cannot distinguish two callers.
func (c *caller) isSame(d *caller) bool {
	return c == d || c.cred.UID == d.cred.UID && c.cred.GID == d.cred.GID && slices.Equal(c.cred.GIDs, d.cred.GIDs) && c.denied == d.denied
}

// callers caches the callers of recent requests, by process. The kernel passes user
// and group with each request, but not the supplementary groups.
type callers struct {
	client *nfsclient.Client
	log    *slog.Logger

	lastLogged atomic.Int64 // when unknown groups were last logged, in nanoseconds since 1970

	mu  sync.Mutex
	all map[callerKey]*caller
}

type callerKey struct{ pid, uid, gid uint32 }

// findCaller returns the caller of a request.
func (s *callers) findCaller(from *fuse.Caller) *caller {
	key := callerKey{from.Pid, from.Uid, from.Gid}
	now := time.Now()
	s.mu.Lock()
	c := s.all[key]
	s.mu.Unlock()
	if c != nil && now.Before(c.expires) {
		return c
	}
	next := &caller{
		cred:    rpcmsg.Cred{Flavor: s.client.Flavor(), UID: from.Uid, GID: from.Gid},
		expires: now.Add(callerLife),
	}
	var err error
	next.cred.GIDs, err = supplementaryGroups(from)
	next.client = s.client.As(next.cred)
	if err != nil && from.Uid != 0 && !exports.Flavor(next.cred.Flavor).Kerberos() { // otherwise the groups do not matter
		if next.denied = !errors.Is(err, errAnother); next.denied {
			next.client = next.client.Limit(denyAccess)
		}
		s.logUnknownGroups(from, now, next.denied, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxCallers {
		clear(s.all)
	}
	s.all[key] = next
	return next
}

// denyAccess fails with EACCES each call that needs rights, for a caller whose
// groups are not known. The server must not be left to decide: without its groups a
// caller has fewer rights or more, because a group may also deny access (mode 0604,
// or an ACL entry that grants a group nothing). The kernel keeps users from giving
// up groups for the same reason (user_namespaces(7), setgroups).
func denyAccess(x *oncrpc.Exchange) error {
	if x.Prog == nfs3.Program && (x.Proc == nfs3.ProcGetAttr || x.Proc == nfs3.ProcFSStat) {
		return nil
	}
	return &nfsclient.Error{Prog: x.Prog, Proc: x.Proc, Status: nfs3.ErrAcces}
}

// logUnknownGroups logs that a caller's groups are not known, at most once per groupsPause.
func (s *callers) logUnknownGroups(from *fuse.Caller, now time.Time, denied bool, why error) {
	last := s.lastLogged.Load()
	if now.UnixNano()-last < int64(groupsPause) || !s.lastLogged.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	text := "calls are sent without the caller's supplementary groups: let the server look groups up (nfsrdmad --manage-gids)"
	if denied {
		text = "access is denied, because the caller's supplementary groups cannot be read: run mountrdma in the PID namespace of the host"
	}
	s.log.Warn(text, "uid", from.Uid, "pid", from.Pid, "cause", why)
}
