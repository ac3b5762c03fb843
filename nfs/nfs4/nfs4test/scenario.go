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
	// Dial opens a connection to the server.
	Dial func() (net.Conn, error)

	// DialFrom opens a connection from one of several hosts. It may be nil.
	DialFrom func(host byte) (net.Conn, error)

	// CallbackHost is this host's address for NFSv4.0 callbacks; "" means
	// 127.0.0.1.
	CallbackHost string

	// Path leads from the server's root to a directory in which user 0 has all
	// permissions.
	Path []string

	// Referral leads from the root to an absent file system with the option Places.
	// Nil means that there is none.
	Referral []string

	// Name distinguishes this run's clients and directories from those of
	// earlier runs.
	Name string

	// Minor is the minor version to speak: nfs4.Minor0, with All40, to nfs4.Minor2.
	Minor uint32

	// Lease is the server's lease time, which Slow scenarios wait for.
	Lease time.Duration

	nameCount atomic.Uint64 // client and directory names
	graceOnce sync.Once     // see T.awaitGraceEnd
}

// uniqueName returns an unused name for a client or directory.
func (s *Server) uniqueName() string {
	return fmt.Sprintf("nfs4test-%s-%d-%d", s.Name, s.Minor, s.nameCount.Add(1))
}

// A Scenario is a client's action, and the behaviour that the standard then
// requires from the server.
type Scenario struct {
	// Name begins with the operation: "LOOKUP of an empty name".
	Name string

	// By is the paragraph that decides: "RFC 8881, 18.13.3".
	By string

	// Linux says how the Linux 6.1 server differs. Empty means that it passes.
	Linux string

	// Heavy scenarios send thousands of calls, or open hundreds of connections.
	Heavy bool

	// Hostile scenarios try to exhaust a server, and need DialFrom.
	Hostile bool

	// OldLinux says how older Linux 6.1 updates differ, and in which update that
	// was observed. The server in the guest may pass or fail.
	OldLinux string

	// Harms says that the scenario makes the Linux 6.1 server lose a thread. It
	// must not run against that server.
	Harms bool

	// Since is the first minor version that has the scenario's operations; 0 is
	// nfs4.Minor1.
	Since uint32

	// Slow scenarios wait until a lease expires.
	Slow bool

	run func(t *T)
}

// All returns all scenarios for NFSv4.1 and NFSv4.2, by family.
func All() []Scenario {
	return slices.Concat(
		manyClients, exchangeID, createSession, channels, sequence, replays, bindings, destroySession, destroyClientID, reclaimComplete,
		handles, lookups, security, getattrs, verifies, setattrs,
		opens, creations, stateids, data,
		creates, removals, renames, readdirs, byteRanges, structure, truncations,
		records, retries, leases, currents, shareModes, nameBytes, limits, roots, malformedArgs, values, rights, races, xattrs, acls, exhaustions, space, copies, delegations, writeDelegations, referrals, lockNotifications,
	)
}

// Run runs a scenario against a server, and returns the failures.
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

	own     *session // see T.ownSession
	ownHost byte     // see T.dialFromOwnHost
	dirFH   []byte   // see T.ownDir
}

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	t.failures = append(t.failures, text)
}

// FailNow ends the scenario.
func (t *T) FailNow() { runtime.Goexit() }

// addCleanup registers f to be called when the scenario has ended.
func (t *T) addCleanup(f func()) { t.cleanups = append(t.cleanups, f) }
