package nfsrdma

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/lockserver"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

const (
	defaultPayload = 1 << 20 // bytes of one READ or WRITE

	// callSlack is how many bytes a call or reply over TCP may have in addition
	// to its payload: credential, file handles, attributes, names.
	callSlack = 64 << 10
)

// ServerConfig configures a Server. The zero value of each field is a usable
// default; a server without Exports has nothing to mount.
type ServerConfig struct {
	// Exports are the file systems that clients can mount. The Server does not
	// close them.
	Exports []nfsserver.Export

	// Key seals file handles. It must be secret, and the same after a restart.
	// Zero means a random key: clients must then mount again after a restart.
	Key [32]byte

	// Names resolves the names of clients in Exports; nil means that no host
	// has a name.
	Names exports.Names

	// Groups, if not nil, returns the groups of a user on this host for a
	// client's call, in place of the at most 16 groups in the call
	// (nfsserver.Config.Groups).
	Groups func(ctx context.Context, client netip.Addr, uid uint32) ([]uint32, error)

	// MaxPayload is the greatest number of bytes of one READ or WRITE; 0 means
	// 1 MiB. A value below 4 KiB or above 4 MiB is an error.
	MaxPayload int

	// Inline is the length in bytes of the longest message sent without RDMA
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the number of calls that each RDMA connection may have under
	// way; 0 means 128.
	Credits int

	// Lease is how long a client that caches under delegations may be silent,
	// and so how long a silent client can hold up changes; 0 means 10 s. For
	// directories of the host it should be at most a third of
	// fs.lease-break-time.
	Lease time.Duration

	// Lease4 is how long a client of version 4 may be silent, and how long it may
	// take to return a delegation; 0 means DefaultLease4. It is a whole number of
	// seconds, and MaxLease4 at most. For directories of the host it should be at
	// most 5 s less than fs.lease-break-time.
	Lease4 time.Duration

	// Marker is the path of a file that tells the next start that clients may
	// hold delegations; "" means none: if a server restarts while a client is
	// cut off, the client's cache can then become stale for a Lease.
	Marker string

	// Clients is the path of a file with the clients of version 4 that have
	// files open or locked, in a directory that exists and that no other server
	// uses. After a restart these clients reclaim their files and locks. ""
	// means none: opens are lost with the server, and so are locks, which other
	// clients may then take at once, and changes do not wait for clients that still
	// trust delegations: their caches can become stale until they hear of the restart.
	Clients string

	// StandardsOnly offers clients nothing of this project's own: no
	// delegations, and FPDUs no longer than a TCP segment.
	StandardsOnly bool

	// Minors are the minor versions of NFS version 4 to serve besides version
	// 3: any of 0, 1 and 2. Nil means all, and an empty slice means none.
	Minors []uint32

	// NoDelegations keeps clients of version 4 from getting delegations, by which
	// they open and read files without calls.
	NoDelegations bool

	// WriteDelegations lets clients of version 4 get delegations for writing too, by
	// which they write and lock files without calls, of files in exclusive exports.
	WriteDelegations bool

	// Owners, if not nil, translates the numbers of users and groups to and
	// from names in version 4; nil means numbers. The caller closes it after
	// the Server.
	Owners *idmap.Map

	// Security, if not nil, makes security contexts for clients, and verifies and
	// decrypts their calls (RPCSEC_GSS): exports may then take Kerberos. Its Log is
	// ignored. Nil means that calls of RPCSEC_GSS are denied.
	Security *rpcsec.ServerConfig

	// TLS, if not nil, makes TCP connections secure if their clients ask for that (RFC
	// 9289): exports may then demand it (xprtsec= of exports(5)). The caller watches its
	// files.
	TLS *rpctls.Server

	// RDMATLS lets clients use TLS below MPA, and OnlyRDMATLS rejects all other
	// connections on RDMA. Both need TLS.
	RDMATLS, OnlyRDMATLS bool

	// OnlyEncrypted refuses all calls that others can read on their way: every export
	// then needs TLS, or calls with krb5p, whatever its clients' options are. Without a
	// file they can ask for handles (MNT), and with krb5i make clients and sessions of
	// version 4, as Linux does.
	OnlyEncrypted bool

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs, Secure and OnlySecure
	// are set by NewServer.
	IWARP iwarp.Config

	// Wrap, if not nil, returns the service that handles all calls in place of
	// next, for instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Service) oncrpc.Service

	// Log receives messages for the administrator; nil means slog.Default().
	Log *slog.Logger
}

// A Server serves NFS version 3, MOUNT version 3, NFSACL version 3, and locks for version 3 by NLM and NSM, over RDMA
// and TCP, and the minor versions of NFS version 4 in ServerConfig.Minors. All
// of its transports share the exports and the replies kept for retransmitted
// calls. The methods are safe for concurrent use.
type Server struct {
	parts Parts
	over  sync.Once

	stop     context.CancelFunc // of the sweeps of the state
	sweeping sync.WaitGroup
	four     *nfs4server.Server // has the state, also if no minor version is served
	locks    *lockserver.Server
	clients  *clientList // that have state; may be nil
	packets  oncrpc.Service
}

// Parts are the layers of a Server, for status and metrics. The caller must not
// shut them down or close them.
type Parts struct {
	NFS         *nfsserver.Server
	NFS4        *nfs4server.Server  // nil without ServerConfig.Minors
	Clients     *nfs4server.Server  // has the state of clients of all versions
	Delegations *delegserver.Keeper // nil with StandardsOnly
	Replies     *replay.Cache
	Security    *rpcsec.Server // nil without ServerConfig.Security
	RDMA        *rpcrdma.Server
	TCP         *oncrpc.Server
	Device      *iwarp.Device // below RDMA
}

// NewServer returns a Server, which must be ended with Shutdown or Close. An
// error names the invalid export or value.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Lease4 = cmp.Or(cfg.Lease4, DefaultLease4)
	keeper, err := cfg.keeper()
	if err != nil {
		return nil, err
	}
	state, clients, err := cfg.state()
	if err != nil {
		keeper.Close()
		return nil, err
	}
	minors := cfg.Minors == nil || len(cfg.Minors) > 0
	config := realm.Config{
		Exports: cfg.Exports, Key: cfg.Key, MaxPayload: cfg.MaxPayload,
		Names: cfg.Names, Groups: cfg.Groups, Grants: keeper, Log: cfg.Log,
	}
	if config.Trusted = state.Trusted; minors {
		config.Holders = cfg.holders(state.State)
	}
	exported, err := realm.New(config)
	if err != nil {
		clients.Close()
		keeper.Close()
		return nil, err
	}
	mux := &oncrpc.Mux{Log: cfg.Log}
	server := nfsserver.Over(exported)
	server.Register(mux)
	var security *rpcsec.Server
	four := nfs4server.New(nfs4server.Config{
		Realm: exported, State: state.State, Lease: cfg.Lease4, ID: serverID(cfg.Key), Minors: cfg.Minors, Owners: cfg.Owners,
		NoDelegations: cfg.NoDelegations, WriteDelegations: cfg.WriteDelegations, OnlyEncrypted: cfg.OnlyEncrypted,
		Back: func(principal string, h nfs4.CallbackHandles) nfs4server.BackContext {
			return backContext(security, principal, h)
		},
	})
	if minors {
		four.Register(mux)
	}
	lock := lockserver.New(lockserver.Config{Realm: exported, State: state.State, Epoch: state.epoch, Restarted: state.machines, OnlyEncrypted: cfg.OnlyEncrypted})
	lock.Register(mux)
	// One cache, because a client may reconnect on another transport.
	replies := replay.New(mux, replay.Config{Keep: executeOnce})
	var calls oncrpc.Service = replies
	if cfg.OnlyEncrypted {
		calls = newOnlyEncrypted(calls, cfg.Log) // behind the observer, which counts denials
	}
	if cfg.Wrap != nil {
		calls = cfg.Wrap(calls)
	}
	// One table of contexts, because Linux makes those for RDMA over TCP.
	plain := calls
	if cfg.Security != nil {
		secure := *cfg.Security
		secure.Log = cfg.Log
		security = rpcsec.NewServer(calls, secure)
		calls = security
	}
	over := &rpcrdma.Server{
		Handler: calls, Inline: cfg.Inline, Credits: cfg.Credits, MaxPayload: cfg.MaxPayload, Log: cfg.Log,
	}
	if minors {
		over.Kind = func(msg []byte) uint32 { return uint32(nfs4.MainOp(msg)) }
	}
	if !cfg.StandardsOnly {
		over.Extensions = keeper.Extension()
	}
	if err := over.Check(); err != nil {
		lock.Close()
		replies.Close()
		clients.Close()
		keeper.Close()
		return nil, err
	}
	tcp := &oncrpc.Server{Handler: calls, MaxRecord: cmp.Or(cfg.MaxPayload, defaultPayload) + callSlack, Log: cfg.Log}
	if cfg.TLS != nil {
		tcp.Guard = cfg.TLS
	}
	if cfg.TLS != nil && (cfg.RDMATLS || cfg.OnlyRDMATLS) {
		if cfg.IWARP.Secure = cfg.TLS.Begin; cfg.OnlyRDMATLS {
			cfg.IWARP.Secure, cfg.IWARP.OnlySecure = cfg.TLS.BeginOnly, true
		}
	}
	device := iwarp.Open(rnic(cfg.IWARP, cfg.StandardsOnly))
	s := &Server{
		parts: Parts{NFS: server, Clients: four, Delegations: keeper, Replies: replies, Security: security, RDMA: over, TCP: tcp, Device: device},
	}
	if minors {
		s.parts.NFS4 = four
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.four, s.locks, s.clients = stop, four, lock, clients
	s.packets = lockserver.Alone(plain) // whoever forges addresses of datagrams could use up the places for new contexts
	s.sweeping.Go(func() { four.Sweep(ctx) })
	return s, nil
}

// backContext returns a client's context for callbacks, or nil.
func backContext(security *rpcsec.Server, principal string, h nfs4.CallbackHandles) nfs4server.BackContext {
	if security == nil {
		return nil
	}
	if c := security.Back(principal, h.FromServer, h.FromClient, h.Service); c != nil {
		return c
	}
	return nil
}

// executeOnce reports whether a call must not be executed again when it is
// retransmitted.
func executeOnce(p rpcmsg.Procedure, msg []byte) bool {
	return nfsserver.ExecuteOnce(p, msg) || lockserver.ExecuteOnce(p) || nfs4.Once(msg)
}

// DefaultLease4 and MaxLease4 are values of ServerConfig.Lease4.
const (
	DefaultLease4 = 40 * time.Second
	MaxLease4     = time.Hour
)

// delegationPause is how long a file is not delegated after a recall: whoever
// changes it will probably change it again.
const delegationPause = 30 * time.Second

// holders returns the table of delegations of version 4, or nil if there can be none.
func (c *ServerConfig) holders(state *nfs4state.State) *recall.Table {
	config := recall.Config{Now: clock(), Pause: delegationPause}
	if state.Grace().Writes > 0 || c.WriteDelegations && state.Writing() {
		config.Writing = state.Writing
	} else if c.NoDelegations {
		return nil
	}
	return recall.New(config)
}

// clock returns a function that returns the time since the call of clock.
func clock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// serverState is the state of a server's clients.
type serverState struct {
	*nfs4state.State
	epoch    uint32
	machines []nfs4state.Machine // that had locks before this start
}

// state returns the state of clients, and their list.
func (c *ServerConfig) state() (s serverState, list *clientList, err error) {
	for _, m := range c.Minors {
		if m > nfs4.MaxMinor {
			return s, nil, fmt.Errorf("nfsrdma: minor version %d of NFS version 4 is not served: 0, 1 and 2 are", m)
		}
	}
	clients, past, err := openClients(c.Clients, c.Log)
	if err != nil {
		return s, nil, err
	}
	config := nfs4state.Config{Now: clock(), Epoch: epoch4(&past, time.Now()), Lease: c.Lease4}
	if clients != nil {
		config.Journal, config.Past, config.Stored = clients, past, clients.stored
	}
	return serverState{nfs4state.New(nfs4server.WithFiles(config)), config.Epoch, past.Machines()}, clients, nil
}

// serverID returns the identity of a server with a key. Clients take servers of
// one identity for one server, so it is random without a key.
func serverID(key [32]byte) [16]byte {
	if key == ([32]byte{}) {
		rand.Read(key[:]) // never fails
	}
	id := sha256.Sum256(append([]byte("server owner "), key[:]...))
	return [16]byte(id[:])
}

// keeper opens the keeper of delegations. With StandardsOnly it does so only if
// the marker of an earlier run exists, because clients may then believe that
// they hold delegations.
func (c *ServerConfig) keeper() (*delegserver.Keeper, error) {
	if c.StandardsOnly {
		if _, err := os.Lstat(c.Marker); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return delegserver.New(delegserver.Config{Lease: c.Lease, Marker: c.Marker, Log: c.Log})
}

// Parts returns the layers of the Server.
func (s *Server) Parts() Parts { return s.parts }

// SetExports replaces the exports. Clients of an export that stays are not
// disturbed (nfsserver.Server.SetExports). If an export goes, the files that clients
// of version 4 have open in it are closed, and their state is revoked.
func (s *Server) SetExports(list []nfsserver.Export) error {
	err := s.parts.NFS.SetExports(list)
	if err == nil {
		s.four.ExportsChanged()
	}
	return err
}

// ServeRDMA serves RPC-over-RDMA version 1 (RFC 8166) over iWARP to the
// connections of l, a TCP listener. It returns nil after Shutdown or Close, or
// the error of l, and closes l. The customary port is 20049.
func (s *Server) ServeRDMA(l net.Listener) error {
	return s.parts.RDMA.Serve(s.parts.Device.NewListener(l))
}

// ServeTCP serves the same programs over plain TCP (RFC 5531, Section 11) to
// the connections of l. It returns nil after Shutdown or Close, or the error of
// l, and closes l. The customary port is 2049.
func (s *Server) ServeTCP(l net.Listener) error { return s.parts.TCP.Serve(l) }

// ServeUDP serves the programs of locks for version 3 (package lockserver) over UDP to the callers of p: old
// clients lock files that way, and Linux tells so that it has restarted. No other program is served, and no call of
// RPCSEC_GSS. ServeUDP returns nil after p.Shutdown, or the error of p.
func (s *Server) ServeUDP(p *oncrpc.Packets) error { return p.Serve(s.packets) }

// ListenAndServe listens on the TCP addresses rdma, for ServeRDMA, and tcp, for
// ServeTCP, and serves both until Shutdown or Close; then it returns nil. If an
// address is "", ListenAndServe does not serve that transport. If one transport
// fails, ListenAndServe ends the Server as Shutdown with an ended context does,
// and returns the error.
func (s *Server) ListenAndServe(rdma, tcp string) error {
	var listeners []net.Listener
	var serve []func() error
	for _, way := range []struct {
		addr  string
		serve func(net.Listener) error
	}{{rdma, s.ServeRDMA}, {tcp, s.ServeTCP}} {
		if way.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", way.addr)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return fmt.Errorf("nfsrdma: %w", err)
		}
		listeners, serve = append(listeners, l), append(serve, func() error { return way.serve(l) })
	}
	return s.together(serve...)
}

// together serves in several ways until all have ended. If one fails, together
// ends the others, and does not wait for calls that a file system executes.
func (s *Server) together(serve ...func() error) error {
	ended := make(chan error, len(serve))
	for _, one := range serve {
		go func() { ended <- one() }()
	}
	var err error
	for range serve {
		if failed := <-ended; failed != nil && err == nil {
			err = failed
			_ = s.Shutdown(aborted()) // ends the other transport
		}
	}
	return err
}

// aborted returns a context that has ended.
func aborted() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Shutdown ends the Server gracefully: it asks clients to return their
// delegations and waits about a second for that, takes no more calls, finishes
// those under way, and closes the connections. If ctx ends first, Shutdown
// aborts the connections and returns the cause, without waiting for calls that
// a file system still executes; Close waits for them. The Server cannot be used
// again.
func (s *Server) Shutdown(ctx context.Context) error {
	if ctx.Err() == nil {
		s.parts.Delegations.Drain()
	}
	err := s.end(ctx)
	s.release()
	return err
}

// Close aborts all connections, waits for the calls that file systems still
// execute, and releases what the Server has: then no goroutine of the Server
// runs, and the file systems can be closed. It returns nil. Close may be called
// after Shutdown, and more than once.
func (s *Server) Close() error {
	_ = s.end(aborted())
	_ = s.end(context.Background()) // calls of file systems
	s.release()
	return nil
}

// end shuts both transports down at the same time.
func (s *Server) end(ctx context.Context) error {
	tcp := make(chan error, 1)
	go func() { tcp <- s.parts.TCP.Shutdown(ctx) }()
	return errors.Join(s.parts.RDMA.Shutdown(ctx), <-tcp)
}

// release ends the layers behind the transports, which take no more calls.
func (s *Server) release() {
	s.over.Do(func() {
		s.stop()
		s.sweeping.Wait()
		s.locks.Close()
		s.four.Close()
		s.clients.Close()
		s.parts.Replies.Close()
		s.parts.Delegations.Close()
	})
}
