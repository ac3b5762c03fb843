package nlmserver

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Config configures a Server. Exports and State are required; package nfs4server polls for locks
// that become free without a client's call.
type Config struct {
	Exports *exportset.Set
	State   *nfs4state.State

	// Epoch is State's epoch.
	Epoch uint32

	// Restarted are the Machines that had locks before this start: Past.Machines.
	Restarted []nfs4state.Machine

	// Dial opens a line to a program on a Machine's host. If it is nil, the server queries
	// rpcbind there, and connects by TCP or else by UDP.
	Dial Dialer

	// Name is this host's name in NOTIFY; "" means the system's host name.
	Name string

	// Tenure, if not nil, is the time until which the server may call clients.
	Tenure *tenure.Tenure

	// OnlyEncrypted disables calls to clients about locks, which would be
	// unencrypted.
	OnlyEncrypted bool
}

// A Server serves the programs NLM and NSM.
type Server struct {
	exports       *exportset.Set
	state         *nfs4state.State
	log           *slog.Logger
	dial          Dialer
	name          string
	onlyEncrypted bool // Config.OnlyEncrypted
	nsmState      int32

	requests     sync.Pool // *request values
	notifyStates notifyStates

	ctx     context.Context // cancelled by Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu             sync.Mutex
	closed         bool
	hosts          map[hostKey]*host
	grants         map[*nfs4state.Waiting]*grant
	cookies        map[uint64]*grant
	restartQueries map[notifyKey]struct{}      // hosts that are queried about a restart
	attempts       map[*grant]chan struct{}    // attempts in progress; closed when done
	lockingFiles   map[any]map[string]struct{} // keys of the files in which grants lock bytes, by storage
	cookie         uint64                      // the last grant's
}

// New returns a Server, which must be closed. It notifies Config.Restarted of the
// restart.
func New(c Config) *Server {
	s := &Server{
		exports: c.Exports, state: c.State, log: c.Exports.Log(), dial: c.Dial, name: c.Name, onlyEncrypted: c.OnlyEncrypted, nsmState: stateOf(c.Epoch),
		hosts: make(map[hostKey]*host), grants: make(map[*nfs4state.Waiting]*grant), cookies: make(map[uint64]*grant), attempts: make(map[*grant]chan struct{}), restartQueries: make(map[notifyKey]struct{}),
		lockingFiles: make(map[any]map[string]struct{}),
		cookie:       uint64(c.Epoch) << 32,
	}
	if s.dial == nil {
		s.dial = dialHost
	}
	if c.Tenure != nil {
		s.dial = gateCalls(s.dial, c.Tenure)
	}
	if s.name == "" {
		s.name, _ = os.Hostname()
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if len(c.Restarted) > 0 {
		s.goUnlessClosed(func() { s.notifyAll(c.Restarted) })
	}
	return s
}

// stateOf returns the NSM state number for an epoch. It is odd, which means that the host is
// up, and changes with each restart. It is positive, because some implementations treat a
// negative number as an error.
func stateOf(epoch uint32) int32 { return int32(epoch<<1&(1<<31-1) | 1) }

// goUnlessClosed runs a function in a goroutine, unless the Server is closed.
func (s *Server) goUnlessClosed(f func()) bool {
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
		m.Register(nlm4.Program, v, lockManager{s, v})
	}
	m.Register(nsm.Program, nsm.Version, statusMonitor{s})
}

// Versions are the served NLM versions.
var Versions = [...]uint32{nlm4.Version1, nlm4.Version3, nlm4.Version}

// Close stops the Server's background work. No further call may arrive. Close does not wait for
// storage that hangs.
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
		s.log.Warn("the NFSv3 lock manager waits for storage that does not respond")
	}
}

// closeTime is the maximum time that Close waits.
const closeTime = 2 * time.Second

// machineOf returns the client of a call from its address and its caller_name.
func machineOf(p *oncrpc.Peer, name []byte) nfs4state.Machine {
	m := nfs4state.Machine{Name: string(name)}
	if p != nil {
		m.Addr, m.Local = p.Addr.Addr().Unmap(), p.Local.Addr().Unmap()
	}
	return m
}

// enterClient begins a client's call. If the status is OK, the caller must call
// Leave.
func (s *Server) enterClient(p *oncrpc.Peer, name []byte) (*nfs4state.MachineRecord, nfs4.Status) {
	m := machineOf(p, name)
	var party fairshare.Name
	if m.Addr.IsValid() {
		party = fairshare.PartyOfIP(m.Addr)
	}
	return s.state.EnterMachine(m, party)
}

// addrOf returns a caller's address.
func addrOf(p *oncrpc.Peer) netip.Addr { return machineOf(p, nil).Addr }
