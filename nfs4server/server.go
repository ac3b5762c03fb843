package nfs4server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/realm"
)

// Config configures a Server. Realm, State and ID are required.
type Config struct {
	Realm *realm.Realm
	State *nfs4state.State

	// Lease is the lease time that clients are told: that of State.
	Lease time.Duration

	// ID identifies the daemon to its clients, over restarts and addresses.
	ID [16]byte

	// Minors are the minor versions to serve: nfs4.Minor0 to nfs4.Minor2. Empty
	// means all.
	Minors []uint32

	// Owners translates owners and groups of files; nil means that they are
	// numbers. The caller closes it.
	Owners *idmap.Map

	// NoDelegations keeps clients from getting delegations, although the Realm has
	// Holders.
	NoDelegations bool

	// WriteDelegations lets clients get delegations for writing too, if the Realm has
	// Holders: of files in exclusive exports.
	WriteDelegations bool

	// Back returns the context of a principal (rpcmsg.Cred) for callbacks, or nil if there
	// is none with the client's handle. It must keep no slices. Nil means that no contexts
	// exist.
	Back func(principal string, h nfs4.CallbackHandles) BackContext

	// OnlyEncrypted refuses calls that others can read on their way, and makes no
	// callbacks that they can read.
	OnlyEncrypted bool

	// MaxSlots is the greatest number of slots of a session; 0 means 64.
	MaxSlots uint32
}

// A BackContext is a security context by which a client has offered to be called
// (rpcsec.BackContext).
type BackContext interface {
	nfs4state.BackContext

	// Room returns by how many bytes a call may be longer than its arguments, and an
	// accepted reply longer than its results behind an empty verifier.
	Room() (call, reply int)

	// Call makes a call through next, protected by the context.
	Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error
}

// A Server is NFS version 4, minor versions 0 to 2.
type Server struct {
	realm     *realm.Realm
	state     *nfs4state.State
	log       *slog.Logger
	lease     time.Duration
	id        [16]byte
	minors    [nfs4.MaxMinor + 1]bool
	slots     uint32
	tree      treeCache
	bound     oncrpc.Memo[binding]
	owners    *idmap.Map // may be nil
	back      func(principal string, h nfs4.CallbackHandles) BackContext
	counts    *rpcstats.Operations
	callbacks callbacks
	offloads  offloads
	looking   atomic.Bool // see look
	compounds sync.Pool   // of *compound

	onlyEncrypted bool

	reads     bool          // clients may get delegations
	writes    bool          // and those for writing
	quiet     time.Duration // see quietTime, shorter in tests
	promising sync.Mutex
	promised  int64 // bytes that clients may keep in their caches, guarded by promising
}

// Limits of our own.
const (
	// defaultSlots is as many as Linux asks for.
	defaultSlots = 64

	// maxOps is the greatest number of operations of a COMPOUND.
	maxOps = 64

	// messageRoom is the room of a request or reply besides a payload: the
	// rest of a COMPOUND with a WRITE or READ. With less than 1,044 bytes
	// Linux would shrink its wsize to an odd number.
	messageRoom = 64 << 10

	// maxCached is the longest reply that a slot keeps on demand. Linux asks
	// for 7,584 bytes.
	maxCached = 8 << 10

	// minRequest and minResponse are the lengths of the shortest COMPOUND,
	// which is SEQUENCE alone, with the headers of RPC and an empty tag. A
	// channel for less could never carry a message.
	minRequest  = callHeader + 12 + 4 + nfs4.SessionIDSize + 16
	minResponse = replyHeader + 12 + minResult + nfs4.SessionIDSize + 20

	// minCallback and minCallbackRes are the same for CB_COMPOUND. CB_SEQUENCE
	// alone tells a client nothing: CB_RECALL, of a filehandle, must fit too.
	minCallback    = callHeader + 16 + 4 + nfs4.SessionIDSize + 20 + 4 + stateidLen + 4 + handleLen
	minCallbackRes = minResponse - 4 + minResult
	minCallbackOps = 2
)

// New returns a Server.
func New(c Config) *Server {
	s := &Server{
		realm: c.Realm, state: c.State, log: c.Realm.Log(), lease: c.Lease, id: c.ID, slots: c.MaxSlots, owners: c.Owners, reads: !c.NoDelegations, writes: c.WriteDelegations && !c.NoDelegations,
		quiet: quietTime, back: c.Back, onlyEncrypted: c.OnlyEncrypted,
		counts: rpcstats.NewOperations(uint32(nfs4.NumOp)),
	}
	if s.slots == 0 {
		s.slots = defaultSlots
	}
	if s.back == nil {
		s.back = func(string, nfs4.CallbackHandles) BackContext { return nil }
	}
	s.callbacks.server, s.callbacks.clients, s.callbacks.probes = s, make(map[uint64]*callbackQueue), make(map[uint64]*probe)
	s.callbacks.ctx, s.callbacks.stop = context.WithCancel(context.Background())
	if len(c.Minors) == 0 {
		c.Minors = []uint32{nfs4.Minor0, nfs4.Minor1, nfs4.Minor2}
	}
	for _, m := range c.Minors {
		s.minors[m] = true
	}
	return s
}

// Operations returns the operations executed so far, by number. Number
// nfs4.NumOp stands for all undefined ones.
func (s *Server) Operations() []rpcstats.OperationStats { return s.counts.Stats() }

// Register registers NFS version 4 with m.
func (s *Server) Register(m *oncrpc.Mux) { m.Register(nfs4.Program, nfs4.Version, s) }

// ServeRPC handles one COMPOUND.
func (s *Server) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc != nfs4.ProcCompound {
		return oncrpc.ErrProcUnavail
	}
	readable := s.readable(c)
	if readable && c.Cred.Flavor != rpcmsg.AuthKrb5i {
		return rpcmsg.AuthTooWeak
	}
	x, _ := s.compounds.Get().(*compound)
	if x == nil {
		x = &compound{server: s}
	}
	defer s.compounds.Put(x)
	x.readable = readable
	return x.serve(ctx, c, r)
}
