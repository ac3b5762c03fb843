package exportset

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Set is a set of exports, and everything that the programs serving them share. It is safe
// for concurrent use.
type Set struct {
	snapshot      atomic.Pointer[Snapshot]
	setMu         sync.Mutex // held while snapshot is replaced
	onRemoval     []func()   // guarded by setMu
	created       time.Time
	removed       removedIDs
	names         exports.Names
	packetLookups chan struct{}                                               // semaphore with maxPacketLookups places
	groups        func(context.Context, netip.Addr, uint32) ([]uint32, error) // may be nil
	seal          *sealer
	payload       int
	log           *slog.Logger
	grants        *delegserver.Keeper     // may be nil
	holders       *recall.Table           // changes are announced there; may be nil
	delegations   *recall.Table           // Config.Holders
	defersChange  func(byState bool) bool // Config.DefersChange; may be nil
	tenure        *tenure.Tenure          // Config.Tenure; may be nil
	nameLocks     nameLocks
	permits       permitPool
	peerCaches    oncrpc.Memo[peerCache]
}

// New returns a Set with the configuration c. An error names the invalid export.
func New(c Config) (*Set, error) {
	payload, err := c.payloadSize()
	if err != nil {
		return nil, err
	}
	holders, err := c.changeTable()
	if err != nil {
		return nil, err
	}
	s := &Set{
		created: time.Now(), seal: newSealer(c.Key), names: c.Names, groups: c.Groups, payload: payload, log: lograte.Logger(c.Log), grants: c.Grants,
		holders: holders, delegations: c.Holders, defersChange: c.DefersChange, tenure: c.Tenure, packetLookups: make(chan struct{}, maxPacketLookups),
	}
	s.nameLocks.init()
	s.permits.init()
	set, err := newSet(c.Exports, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range set.list {
		e.setReleased(e.config.Released)
	}
	s.snapshot.Store(set)
	return s, nil
}

// Payload returns the maximum number of bytes in one READ or WRITE.
func (s *Set) Payload() int { return s.payload }

// Log returns the log for file system errors. It is never nil.
func (s *Set) Log() *slog.Logger { return s.log }

// Grants returns the manager of delegations with counters, or nil.
func (s *Set) Grants() *delegserver.Keeper { return s.grants }

// Holders returns the table of NFSv4 delegations, or nil.
func (s *Set) Holders() *recall.Table { return s.delegations }

// A FoundExport is an export that contains a path.
type FoundExport struct {
	*Exported
	Rest    string           // rest of the path, below the export
	Flavors []exports.Flavor // accepted for the peer's calls, the preferred one first

	// Searcher is the identity that searches the directories below the export's root. It is the
	// superuser only if the call's port shows that its host's superuser vouches for it.
	Searcher vfs.Cred
}

// FindExport returns the export with the longest path that contains name, among the exports
// that peer may use, as knfsd does. Neither the flavor of the call, which has the credential c,
// nor its transport needs to be accepted by the export: Linux sends MOUNT unencrypted, whatever
// xprtsec= is. But a port that the export requires for calls with the flavor is required here
// too. The caller must call Leave on the export. The error is Later or Access; for ENOENT the
// export is nil. An export that only refers to other servers is not available to callers of
// FindExport: the error is Access.
func (s *Set) FindExport(ctx context.Context, peer *oncrpc.Peer, c *rpcmsg.Cred, name string) (r FoundExport, err error) {
	set := s.snapshot.Load()
	var rejected *Exported // the first, and the reason
	var reason error
	for _, e := range set.exportsContaining(name) {
		v := s.accessFor(ctx, peer, set, e)
		o, denial := v.forFlavor(c.Flavor)
		if denial == WrongTransport && isUnverified(c) && !v.clientOptions.Insecure && !hasSecurePort(peer) && slices.Contains(v.clientOptions.Flavors(), exports.FlavorSys) {
			denial = Perm
		}
		switch denial {
		case nil, WrongSec, WrongTransport:
			if v.clientOptions.Refer.Set() {
				return r, Access
			}
			who, err := s.searcherCred(ctx, peer, c, o, v.clientOptions)
			if err != nil {
				return r, Later
			}
			if !e.enterCall() {
				return s.FindExport(ctx, peer, c, name) // another snapshot is current already
			}
			return FoundExport{e, strings.TrimPrefix(strings.TrimPrefix(name, e.Path), "/"), v.clientOptions.Flavors(), who}, nil
		case Later:
			return r, Later
		default:
			rejected, reason, err = cmp.Or(rejected, e), cmp.Or(reason, denial), Access
		}
	}
	if err != nil {
		s.LogRejection(peer, rejected, reason)
	}
	return r, err
}

// searcherCred returns the Searcher for a call with the options o. If o is nil, the client's
// export requires other flavors or transports, and the caller is nobody. An error means that
// the caller's user or groups are unknown at present.
func (s *Set) searcherCred(ctx context.Context, peer *oncrpc.Peer, c *rpcmsg.Cred, o, client *exports.Options) (vfs.Cred, error) {
	switch {
	case peer == nil, isUnverified(c) && peer.Addr.Port() < reservedPorts:
		return vfs.Cred{}, nil
	case o == nil:
		return vfs.Cred{UID: client.AnonUID.Number(), GID: client.AnonGID.Number()}, nil
	}
	q := Request{set: s, peer: peer, caller: c}
	err := q.identifyCaller(ctx, o)
	return q.Cred, err
}

// exportsContaining returns the exports that contain a path, the longest path first.
func (set *Snapshot) exportsContaining(name string) (found []*Exported) {
	for _, e := range set.list {
		tail, ok := strings.CutPrefix(name, e.Path)
		if ok && (tail == "" || tail[0] == '/' || e.Path == "/") {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *Exported) int { return len(b.Path) - len(a.Path) })
	return found
}

// Enter begins a use of an export outside a call. If it returns false, the export has been
// removed; otherwise the caller must call Leave.
func (e *Exported) Enter() bool { return e.enterCall() }

// Leave ends the use of an export that FindExport has returned, or Enter has begun.
func (e *Exported) Leave() { e.leaveCall() }

// RunWithPermit calls fn as a call from peer that uses e's file system. It returns Later if the
// storage cannot accept the call.
func (s *Set) RunWithPermit(ctx context.Context, peer *oncrpc.Peer, e *Exported, fn func()) error {
	worker := s.permits.counterFor(&e.source.work, peer)
	period, ok := s.beginWork(ctx, worker, e.source)
	if !ok {
		return Later
	}
	defer s.endWork(e.source, worker, period)
	fn()
	return nil
}

// AppendHandle appends the file handle of an object in an export to b, which must be empty.
func (s *Set) AppendHandle(b []byte, e *Exported, h *vfs.Handle) []byte {
	return e.appendHandle(s.seal, new(macBuffer), b, h)
}

// Snapshot returns the current exports.
func (s *Set) Snapshot() *Snapshot { return s.snapshot.Load() }

// List returns the exports, which the caller must not change.
func (set *Snapshot) List() []*Exported { return set.list }

// CheckAccess returns nil if a peer whose call has the credential c may use an export in set,
// perhaps with another flavor, and otherwise the Denial. It may wait for names, for a bounded
// time.
func (s *Set) CheckAccess(ctx context.Context, p *oncrpc.Peer, c *rpcmsg.Cred, set *Snapshot, e *Exported) error {
	if _, err := s.accessFor(ctx, p, set, e).forFlavor(c.Flavor); !IsSecurityDenial(err) {
		return err
	}
	return nil
}

// Flavors returns the flavors with which a peer may use an export in set, the preferred one
// first, or none. It may wait as CheckAccess does.
func (s *Set) Flavors(ctx context.Context, p *oncrpc.Peer, set *Snapshot, e *Exported) []exports.Flavor {
	if o := s.accessFor(ctx, p, set, e).clientOptions; o != nil {
		return o.Flavors()
	}
	return nil
}
