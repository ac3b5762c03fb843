package nfsrdma

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/lockserver"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcsec"
)

const (
	defaultPayload = 1 << 20 // bytes of one READ or WRITE

	// callSlack is how many bytes a call or reply over TCP may have in addition
	// to its payload: credential, file handles, attributes, names.
	callSlack = 64 << 10
)

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
		Handler: calls, Inline: cfg.Inline, Credits: cfg.Credits, MaxPayload: cfg.MaxPayload, MaxConns: cfg.MaxConns, Trace: cfg.Trace, Log: cfg.Log,
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
	tcp := &oncrpc.Server{Handler: calls, Kind: over.Kind, MaxRecord: cmp.Or(cfg.MaxPayload, defaultPayload) + callSlack, Trace: cfg.Trace, Log: cfg.Log}
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
