package lockserver

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
)

// Config configures a Server. Realm and State are required.
type Config struct {
	Realm *realm.Realm
	State *nfs4state.State

	// Epoch is that of State.
	Epoch uint32

	// Restarted are the Machines that had locks before this start: Past.Machines.
	Restarted []nfs4state.Machine

	// Dial makes a line to a program of a Machine's host; nil means Dial.
	Dial Dialer

	// Name is this host's name, which NOTIFY has; "" means that of the system.
	Name string

	// OnlyEncrypted makes no calls to clients that tell of locks: these go in clear.
	OnlyEncrypted bool
}

// A Server is the programs NLM and NSM.
type Server struct {
	realm    *realm.Realm
	state    *nfs4state.State
	log      *slog.Logger
	dial     Dialer
	name     string
	silent   bool // Config.OnlyEncrypted
	nsmState int32

	requests sync.Pool // of *request
	looking  atomic.Bool
	notices  notices

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	hosts    map[hostKey]*host
	grants   map[*nfs4state.Waiting]*grant
	cookies  map[uint64]*grant
	attempts map[*grant]chan struct{} // that are under way: closed at the end
	cookie   uint64                   // of the last grant
}

// New returns a Server, which must be closed. It tells Config.Restarted of the restart.
func New(c Config) *Server {
	s := &Server{
		realm: c.Realm, state: c.State, log: c.Realm.Log(), dial: c.Dial, name: c.Name, silent: c.OnlyEncrypted, nsmState: stateOf(c.Epoch),
		hosts: make(map[hostKey]*host), grants: make(map[*nfs4state.Waiting]*grant), cookies: make(map[uint64]*grant), attempts: make(map[*grant]chan struct{}),
		cookie: uint64(c.Epoch) << 32,
	}
	if s.dial == nil {
		s.dial = Dial
	}
	if s.name == "" {
		s.name, _ = os.Hostname()
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if len(c.Restarted) > 0 {
		s.begin(func() { s.tell(c.Restarted) })
	}
	return s
}

// stateOf returns the state number of NSM for an epoch: odd, which says that the host is up,
// and another one after each restart. It is positive, because some take the sign for a fault.
func stateOf(epoch uint32) int32 { return int32(epoch<<1&(1<<31-1) | 1) }

// begin runs a function in a goroutine, unless the Server is closed.
func (s *Server) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// Register registers the programs with m.
func (s *Server) Register(m *oncrpc.Mux) {
	for _, v := range Versions {
		m.Register(nlm4.Program, v, manager{s, v})
	}
	m.Register(nsm.Program, nsm.Version, monitor{s})
}

// Versions are the versions of NLM that are served.
var Versions = [...]uint32{nlm4.Version1, nlm4.Version3, nlm4.Version}

// Close ends all that the Server does by itself. No call may come any more. Close does not wait for
// storage that does not answer.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		s.log.Warn("the lock manager of version 3 waits for storage that does not answer")
	}
}

// closeTime is how long Close waits.
const closeTime = 2 * time.Second

// machine returns the client of a call, by the name that it gives itself.
func machine(p *oncrpc.Peer, name []byte) nfs4state.Machine {
	m := nfs4state.Machine{Name: string(name)}
	if p != nil {
		m.Addr, m.Local = p.Addr.Addr().Unmap(), p.Local.Addr().Unmap()
	}
	return m
}

// enter begins a call of a client. Leave must follow, if the status is OK.
func (s *Server) enter(p *oncrpc.Peer, name []byte) (*nfs4state.Session, nfs4.Status) {
	m := machine(p, name)
	var party fairshare.Name
	if m.Addr.IsValid() {
		party = fairshare.PartyOfIP(m.Addr)
	}
	return s.state.EnterMachine(m, party)
}

// addrOf returns the address of a caller.
func addrOf(p *oncrpc.Peer) netip.Addr { return machine(p, nil).Addr }

// lookEvery is how often the Server looks for locks that have become free with no call of a
// client.
const lookEvery = time.Second

// look makes the Server look for locks while any owner waits for one.
func (s *Server) look() {
	if s.looking.CompareAndSwap(false, true) && !s.begin(s.keepLooking) {
		s.looking.Store(false)
	}
}

func (s *Server) keepLooking() {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-every.C:
		}
		if s.state.LooksAgain() {
			continue
		}
		s.looking.Store(false)
		if !s.state.Waits() || !s.looking.CompareAndSwap(false, true) {
			return
		}
	}
}
