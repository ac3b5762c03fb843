package nfs4server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// Config configures a Server. Realm, State and ID are required.
type Config struct {
	Exports *exportset.Set
	State   *nfs4state.State

	// Lease is the lease time that clients are told. It must be State's.
	Lease time.Duration

	// ID identifies the daemon to its clients across restarts and addresses.
	ID [16]byte

	// Minors are the minor versions to serve: nfs4.Minor0 to nfs4.Minor2. Empty
	// means all.
	Minors []uint32

	// Owners translates the owners and groups of files; if nil, they are numbers. The caller
	// closes it.
	Owners *idmap.Map

	// NoDelegations disables delegations, even if the Realm has Holders.
	NoDelegations bool

	// WriteDelegations also enables write delegations, for files in exclusive exports, if the
	// Realm has Holders.
	WriteDelegations bool

	// Back returns a principal's context for callbacks (rpcmsg.Cred), or nil if none has the
	// client's handle. It must not retain slices. Nil means that there are no contexts.
	Back func(principal string, h nfs4.CallbackHandles) BackContext

	// Tenure, if not nil, is the time until which the server may call clients, and copy after its
	// reply to COPY.
	Tenure *tenure.Tenure

	// OnlyEncrypted rejects unencrypted calls, and disables unencrypted callbacks.
	OnlyEncrypted bool

	// MaxSlots is the maximum number of slots in a session; 0 means 256.
	MaxSlots uint32
}

// A BackContext is a security context that a client has offered for callbacks
// (rpcsec.BackContext).
type BackContext interface {
	nfs4state.BackContext

	// Overhead returns the number of bytes by which a call may be longer than its arguments, and an
	// accepted reply longer than its results after an empty verifier.
	Overhead() (call, reply int)

	// Call sends a call through next, protected by the context.
	Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error
}

// A Server implements NFSv4, minor versions 0 to 2.
type Server struct {
	exports       *exportset.Set
	state         *nfs4state.State
	log           *slog.Logger
	lease         time.Duration
	id            [16]byte
	minors        [nfs4.MaxMinor + 1]bool
	slots         uint32
	tree          treeCache
	boundSessions oncrpc.Memo[boundSessions]
	owners        *idmap.Map // may be nil
	back          func(principal string, h nfs4.CallbackHandles) BackContext
	counts        *rpcstats.Operations
	callbacks     callbackQueues
	offloads      *offloadTable
	pollsLocks    atomic.Bool // pollLocks is running
	locating      locators
	compounds     sync.Pool // contains *compound

	tenure        *tenure.Tenure // may be nil
	onlyEncrypted bool

	readDelegations  bool          // clients may get read delegations
	writeDelegations bool          // clients may get write delegations
	isDraining       atomic.Bool   // clients get no more delegations; see Drain
	writeBackPause   time.Duration // maxWriteBackPause, shorter in tests
	reserveMu        sync.Mutex
	reservedBytes    int64 // bytes that clients may cache, guarded by reserveMu
}

// Local limits.
const (
	// defaultSlots is more than clients request by default: Linux requests 64. A session has so
	// many only while it uses them.
	defaultSlots = 256

	// maxOps is the maximum number of operations in a COMPOUND.
	maxOps = 64

	// messageOverhead is the space in a request or reply besides a payload: for the rest of a
	// COMPOUND with a WRITE or READ. With less than 1,044 bytes, Linux would reduce its wsize
	// to an odd number.
	messageOverhead = 64 << 10

	// minRequest and minResponse are the lengths of the shortest COMPOUND, which contains only
	// SEQUENCE, with the RPC headers and an empty tag. A channel with lower limits could never
	// carry a message.
	minRequest  = callHeaderLen + 12 + 4 + nfs4.SessionIDSize + 16
	minResponse = replyHeaderLen + 12 + minResultLen + nfs4.SessionIDSize + 20

	// minCallback and minCallbackRes are the same for CB_COMPOUND. CB_SEQUENCE alone tells a
	// client nothing: CB_RECALL with a filehandle must fit too.
	minCallback    = callHeaderLen + 16 + 4 + nfs4.SessionIDSize + 20 + 4 + stateidLen + 4 + handleLen
	minCallbackRes = minResponse - 4 + minResultLen
	minCallbackOps = 2
)

// New returns a Server.
func New(c Config) *Server {
	s := &Server{
		exports: c.Exports, state: c.State, log: c.Exports.Log(), lease: c.Lease, id: c.ID, slots: c.MaxSlots, owners: c.Owners, readDelegations: !c.NoDelegations, writeDelegations: c.WriteDelegations && !c.NoDelegations,
		writeBackPause: maxWriteBackPause, offloads: newOffloads(), back: c.Back, tenure: c.Tenure, onlyEncrypted: c.OnlyEncrypted,
		counts: rpcstats.NewOperations(uint32(nfs4.NumOp)),
	}
	if s.slots == 0 {
		s.slots = defaultSlots
	}
	if s.back == nil {
		s.back = func(string, nfs4.CallbackHandles) BackContext { return nil }
	}
	s.callbacks.server, s.callbacks.byClient, s.callbacks.probes = s, make(map[uint64]*callbackQueue), make(map[uint64]*callbackProbe)
	s.callbacks.ctx, s.callbacks.stop = context.WithCancel(context.Background())
	if len(c.Minors) == 0 {
		c.Minors = []uint32{nfs4.Minor0, nfs4.Minor1, nfs4.Minor2}
	}
	for _, m := range c.Minors {
		s.minors[m] = true
	}
	s.exports.NotifyRemoval(s.revokeRemoved)
	s.state.NotifyLockWait(s.startLockPolling)
	return s
}

// Operations returns the operations executed so far, by number. Number nfs4.NumOp represents
// all undefined ones.
func (s *Server) Operations() []rpcstats.OperationStats { return s.counts.Stats() }

// Register registers NFSv4 with m.
func (s *Server) Register(m *oncrpc.Mux) { m.Register(nfs4.Program, nfs4.Version, s) }

// ServeRPC serves one COMPOUND.
func (s *Server) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc != nfs4.ProcCompound {
		return oncrpc.ErrProcUnavail
	}
	readable := s.lacksEncryption(c)
	if readable && c.Cred.Flavor != rpcmsg.AuthKrb5i {
		return rpcmsg.AuthTooWeak
	}
	x, _ := s.compounds.Get().(*compound)
	if x == nil {
		x = &compound{server: s}
	}
	defer s.compounds.Put(x)
	x.lacksEncryption = readable
	return x.serve(ctx, c, r)
}
