package realm

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Realm is a set of exports, and everything that the programs serving them
// share. It is safe for concurrent use.
type Realm struct {
	set       atomic.Pointer[Set]
	setting   sync.Mutex // held while set is replaced
	names     exports.Names
	groups    func(context.Context, netip.Addr, uint32) ([]uint32, error) // may be nil
	seal      *sealer
	payload   int
	log       *slog.Logger
	grants    *delegserver.Keeper // may be nil
	holders   *recall.Table       // may be nil
	isTrusted func() bool         // may be nil
	changing  nameLocks
	permits   permits
	memos     oncrpc.Memo[memo]
}

// New returns a Realm with the configuration c. An error names the invalid
// export.
func New(c Config) (*Realm, error) {
	payload, err := c.payload()
	if err != nil {
		return nil, err
	}
	s := &Realm{
		seal: newSealer(c.Key), names: c.Names, groups: c.Groups, payload: payload, log: lograte.Logger(c.Log), grants: c.Grants,
		holders: c.Holders, isTrusted: c.Trusted,
	}
	s.changing.init()
	s.permits.init()
	set, err := newSet(c.Exports, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range set.list {
		e.setReleased(e.config.Released)
	}
	s.set.Store(set)
	return s, nil
}

// Payload returns the greatest number of bytes of one READ or WRITE.
func (s *Realm) Payload() int { return s.payload }

// Log returns the log for errors of file systems. It is never nil.
func (s *Realm) Log() *slog.Logger { return s.log }

// Grants returns the keeper of delegations, or nil.
func (s *Realm) Grants() *delegserver.Keeper { return s.grants }

// Holders returns the table of delegations of version 4, or nil.
func (s *Realm) Holders() *recall.Table { return s.holders }

// A Reached is an export that contains a path.
type Reached struct {
	*Exported
	Rest    string           // of the path, below the export
	Flavors []exports.Flavor // of the peer's calls, the preferred one first
}

// Reach returns the export with the longest path that contains name, among the
// exports that peer may use, as knfsd does. The flavour of the call, which has
// the credential c, need not be one of the export's, nor its transport: Linux asks
// MOUNT in clear, whatever xprtsec= is. The caller must call Leave
// on the export. The error is Later, Access, or ENOENT as a nil export. An export
// that only refers to other servers is not for callers of Reach: the error is
// Access.
func (s *Realm) Reach(ctx context.Context, peer *oncrpc.Peer, c *rpcmsg.Cred, name string) (r Reached, err error) {
	set := s.set.Load()
	for _, e := range set.above(name) {
		v := s.verdict(ctx, peer, set, e)
		switch _, denial := v.of(c.Flavor); denial {
		case nil, WrongSec, WrongTransport:
			if v.client.Refer.Set() {
				return r, Access
			}
			if !e.enter() {
				return s.Reach(ctx, peer, c, name) // another set is current already
			}
			return Reached{e, strings.TrimPrefix(strings.TrimPrefix(name, e.Path), "/"), v.client.Flavors()}, nil
		case Later:
			return r, Later
		default:
			err = Access
		}
	}
	return r, err
}

// above returns the exports that contain a path, the longest path first.
func (set *Set) above(name string) (found []*Exported) {
	for _, e := range set.list {
		tail, ok := strings.CutPrefix(name, e.Path)
		if ok && (tail == "" || tail[0] == '/' || e.Path == "/") {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *Exported) int { return len(b.Path) - len(a.Path) })
	return found
}

// Enter begins a use of an export apart from calls. If it returns false, the export is
// gone; otherwise Leave must follow.
func (e *Exported) Enter() bool { return e.enter() }

// Leave ends the use of an export that Reach has returned, or Enter has begun.
func (e *Exported) Leave() { e.leave() }

// Visit calls fn as a call of peer that uses the file system of e. It returns
// Later if storage has no room for the call.
func (s *Realm) Visit(ctx context.Context, peer *oncrpc.Peer, e *Exported, fn func()) error {
	worker := s.permits.of(&e.source.work, peer)
	period, ok := s.work(ctx, worker, e.source)
	if !ok {
		return Later
	}
	defer s.rest(e.source, worker, period)
	fn()
	return nil
}

// AppendHandle appends the file handle of an export's object to b, which must
// be empty.
func (s *Realm) AppendHandle(b []byte, e *Exported, h *vfs.Handle) []byte {
	return s.seal.appendHandle(new(mac), b, e.ID, h)
}

// Set returns the set of exports in force.
func (s *Realm) Set() *Set { return s.set.Load() }

// List returns the exports of the set, which the caller must not change.
func (set *Set) List() []*Exported { return set.list }

// Admits returns nil if a peer whose call has the credential c may use an export
// of set, perhaps with another flavour, and otherwise the Denial. It may wait for
// names, for a bounded time.
func (s *Realm) Admits(ctx context.Context, p *oncrpc.Peer, c *rpcmsg.Cred, set *Set, e *Exported) error {
	if _, err := s.verdict(ctx, p, set, e).of(c.Flavor); !BySecurity(err) {
		return err
	}
	return nil
}

// Flavors returns the flavours with which a peer may use an export of set, the
// preferred one first, or none. It may wait as Admits does.
func (s *Realm) Flavors(ctx context.Context, p *oncrpc.Peer, set *Set, e *Exported) []exports.Flavor {
	if o := s.verdict(ctx, p, set, e).client; o != nil {
		return o.Flavors()
	}
	return nil
}
