package nfs4test

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Server is a server under test.
type Server struct {
	// Dial makes a connection to the server.
	Dial func() (net.Conn, error)

	// DialFrom makes a connection from one of several hosts. It may be nil.
	DialFrom func(host byte) (net.Conn, error)

	// CallbackHost is this host's address for callbacks of version 4.0; "" means
	// 127.0.0.1.
	CallbackHost string

	// Path leads from the root of the server to a directory in which user 0 may
	// do everything.
	Path []string

	// Referral leads from the root to an absent file system with the option Places.
	// Nil means that there is none.
	Referral []string

	// Name makes the clients and directories of this run differ from those of
	// earlier runs.
	Name string

	// Minor is the minor version to speak: nfs4.Minor0, with All40, to nfs4.Minor2.
	Minor uint32

	// Lease is the server's lease time, for whose end Slow scenarios wait.
	Lease time.Duration

	made  atomic.Uint64 // names of clients and directories
	grace sync.Once     // see T.afterGrace
}

// unique returns a name that no other client or directory has.
func (s *Server) unique() string {
	return fmt.Sprintf("nfs4test-%s-%d-%d", s.Name, s.Minor, s.made.Add(1))
}

// A Scenario is something that a client does, and the behaviour that the
// standard then requires of the server.
type Scenario struct {
	// Name begins with the operation: "LOOKUP of an empty name".
	Name string

	// By is the paragraph that decides: "RFC 8881, 18.13.3".
	By string

	// Linux says how the server of Linux 6.1 differs. Empty means that it
	// passes.
	Linux string

	// Heavy scenarios make thousands of calls, or hundreds of connections.
	Heavy bool

	// Hostile scenarios try to take all of a server, and need DialFrom.
	Hostile bool

	// Harms says that the server of Linux 6.1 loses a thread by the scenario,
	// which thus must not run on it.
	Harms bool

	// Since is the first minor version that has the scenario's operations; 0 is
	// nfs4.Minor1.
	Since uint32

	// Slow scenarios wait for the end of a lease.
	Slow bool

	run func(t *T)
}

// All returns all scenarios, in the order of their families.
func All() []Scenario {
	return slices.Concat(
		crowds, exchangeID, createSession, channels, sequence, replays, bindings, destroySession, destroyClientID, reclaimComplete,
		handles, lookups, security, getattrs, verifies, setattrs,
		opens, creations, stateids, data,
		makes, removals, renames, readdirs, byteRanges, structure, cuts,
		records, retries, leases, currents, sharing, spelled, limits, roots, misformed, values, rights, races, xattrs, acls, hogs, space, copies, delegations, writeDelegations, referrals, notices,
	)
}

// Run runs a scenario against a server. Run returns the failures, or nothing.
func (sc *Scenario) Run(s *Server) (failures []string) {
	t := &T{Server: s, Minor: s.Minor}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sc.run(t)
	}()
	<-done
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
	return t.failures
}

// A T is one run of a scenario. It is the TestingT of package assert and of
// package require.
type T struct {
	*Server
	Minor uint32 // to speak

	mu       sync.Mutex
	failures []string
	cleanups []func()

	own  *session // see T.session
	host byte     // see T.hog
	at   []byte   // handle of the scenario's directory
}

// Errorf notes a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	t.failures = append(t.failures, text)
}

// FailNow ends the scenario.
func (t *T) FailNow() { runtime.Goexit() }

// cleanup calls f when the scenario has ended.
func (t *T) cleanup(f func()) { t.cleanups = append(t.cleanups, f) }
