package nfsrdma

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlmserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

const (
	defaultPayload = 1 << 20 // bytes in one READ or WRITE

	// callSlack is how many bytes a call over TCP may have in addition to its payload:
	// credential, file handles, attributes, names.
	callSlack = 64 << 10
)

// A Server serves NFS version 3 with MOUNT, NFSACL, NLM and NSM, and NFS version 4, over
// RDMA and TCP. All transports share the exports and the replies kept for retransmitted
// calls. The methods are safe for concurrent use.
type Server struct {
	parts     Parts
	exports   *exportset.Set
	closeOnce sync.Once

	stop     context.CancelFunc // stops sweeps
	sweeps   sync.WaitGroup
	nfs4     *nfs4server.Server // has the state of clients even if no minor version is served
	locks    *nlmserver.Server
	clients  *clientList // may be nil
	udpCalls oncrpc.Service
}

// Parts are the layers of a Server, for status and metrics. The caller must not
// shut them down or close them.
type Parts struct {
	Exports     *exportset.Set
	NFS         *nfsserver.Server
	NFS4        *nfs4server.Server  // nil without ServerConfig.Minors
	Clients     *nfs4server.Server  // state of clients of all versions
	Delegations *delegserver.Keeper // nil with StandardsOnly
	Replies     *replay.Cache
	Security    *rpcsec.Server // nil without ServerConfig.Security
	RDMA        *rpcrdma.Server
	TCP         *oncrpc.Server
	Device      *iwarp.Device // below RDMA
}

// NewServer returns a Server, which the caller must end with Shutdown or Close. An error
// names the invalid export or value.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Lease4 = cmp.Or(cfg.Lease4, DefaultLease4)
	var undo cleanup
	defer undo.run()
	state, clients, err := cfg.openState()
	if err != nil {
		return nil, err
	}
	undo.add(clients.Close)
	minors := cfg.Minors == nil || len(cfg.Minors) > 0
	config := exportset.Config{
		Exports: cfg.Exports, Key: cfg.Key, MaxPayload: cfg.MaxPayload,
		Names: cfg.Names, Groups: cfg.Groups, Log: cfg.Log, DefersChange: state.DefersChange, Tenure: cfg.Tenure,
	}
	if minors {
		config.Holders = cfg.delegationTable(state.State)
	}
	keeper, err := cfg.openKeeper(config.Holders, state.State)
	if err != nil {
		return nil, err
	}
	undo.add(keeper.Close)
	config.Grants = keeper
	exported, err := exportset.New(config)
	if err != nil {
		return nil, err
	}
	mux := &oncrpc.Mux{Log: cfg.Log, Admit: (&hostGate{exported, lograte.Logger(cfg.Log)}).admitCall}
	server := nfsserver.NewForSet(exported)
	if !cfg.NoNFS3 {
		server.Register(mux)
	}
	var security *rpcsec.Server
	nfs4Server := nfs4server.New(nfs4server.Config{
		Exports: exported, State: state.State, Lease: cfg.Lease4, ID: serverID(cfg.Key), Minors: cfg.Minors, Owners: cfg.Owners,
		NoDelegations: cfg.NoDelegations, WriteDelegations: cfg.WriteDelegations, OnlyEncrypted: cfg.OnlyEncrypted, Tenure: cfg.Tenure,
		Back: func(principal string, h nfs4.CallbackHandles) nfs4server.BackContext {
			return backContext(security, principal, h)
		},
	})
	if minors {
		nfs4Server.Register(mux)
	}
	lockServer := nlmserver.New(nlmserver.Config{Exports: exported, State: state.State, Epoch: state.epoch, Restarted: state.machines, OnlyEncrypted: cfg.OnlyEncrypted, Tenure: cfg.Tenure})
	undo.add(lockServer.Close)
	if !cfg.NoNFS3 {
		lockServer.Register(mux)
	}
	// Both transports share one cache, because a client may reconnect over the other.
	replies := replay.New(mux, replay.Config{Keep: executeOnce})
	undo.add(replies.Close)
	var calls oncrpc.Service = replies
	if cfg.OnlyEncrypted {
		calls = newOnlyEncrypted(calls, cfg.Log) // called by the observer, which counts denials
	}
	if cfg.Wrap != nil {
		calls = cfg.Wrap(calls)
	}
	// Both transports share security contexts, because Linux creates those for RDMA over TCP.
	plain := calls
	if cfg.Security != nil {
		secure := *cfg.Security
		secure.Log = cfg.Log
		security = rpcsec.NewServer(calls, secure)
		calls = security
	}
	plain, calls = withTenure(plain, cfg.Tenure), withTenure(calls, cfg.Tenure)
	rdmaServer := &rpcrdma.Server{
		Handler: calls, Inline: cfg.Inline, Credits: cfg.Credits, MaxPayload: cfg.MaxPayload, MaxConns: cfg.MaxConns, Trace: cfg.Trace, Log: cfg.Log,
	}
	if minors {
		rdmaServer.Kind = func(msg []byte) uint32 { return uint32(nfs4.MainOp(msg)) }
	}
	rdmaServer.Extensions = keeper.Extension()
	if err := rdmaServer.Check(); err != nil {
		return nil, err
	}
	undo.discard()
	tcpServer := &oncrpc.Server{Handler: calls, Kind: rdmaServer.Kind, MaxRecord: cmp.Or(cfg.MaxPayload, defaultPayload) + callSlack, Trace: cfg.Trace, Log: cfg.Log}
	if cfg.TLS != nil {
		tcpServer.Guard = cfg.TLS
	}
	if cfg.TLS != nil && (cfg.RDMATLS || cfg.OnlyRDMATLS) {
		if cfg.IWARP.Secure = cfg.TLS.Begin; cfg.OnlyRDMATLS {
			cfg.IWARP.Secure, cfg.IWARP.OnlySecure = cfg.TLS.BeginOnly, true
		}
	}
	cfg.IWARP.Foreign, cfg.IWARP.Tenure = logForeign(cfg.Log), cfg.Tenure
	device := iwarp.Open(deviceConfig(cfg.IWARP, cfg.StandardsOnly))
	s := &Server{
		exports: exported,
		parts:   Parts{Exports: exported, NFS: server, Clients: nfs4Server, Delegations: keeper, Replies: replies, Security: security, RDMA: rdmaServer, TCP: tcpServer, Device: device},
	}
	if minors {
		s.parts.NFS4 = nfs4Server
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.nfs4, s.locks, s.clients = stop, nfs4Server, lockServer, clients
	s.udpCalls = nlmserver.Alone(plain) // without contexts: calls with forged addresses could exhaust the pending ones
	s.sweeps.Go(func() { nfs4Server.Sweep(ctx) })
	return s, nil
}

// logForeign returns a function that logs peers which do not speak RDMA on its port.
func logForeign(log *slog.Logger) func(net.Addr, error) {
	log = lograte.Logger(log)
	return func(peer net.Addr, err error) {
		log.Warn("a peer does not speak RDMA on the port for RDMA", "peer", peer, "err", err)
	}
}

// backContext returns a client's security context for callbacks, or nil.
func backContext(security *rpcsec.Server, principal string, h nfs4.CallbackHandles) nfs4server.BackContext {
	if security == nil {
		return nil
	}
	if c := security.Back(principal, h.FromServer, h.FromClient, h.Service); c != nil {
		return c
	}
	return nil
}

// executeOnce reports whether a retransmitted call must not be executed again.
func executeOnce(p rpcmsg.Procedure, msg []byte) bool {
	return nfsserver.ExecuteOnce(p, msg) || nlmserver.ExecuteOnce(p) || nfs4.Once(msg)
}

// Parts returns the layers of the Server.
func (s *Server) Parts() Parts { return s.parts }

// SetExports replaces the exports. Clients of exports that remain are not disturbed
// (exportset.Set.SetExports). In a removed export, the open files of NFSv4 clients are
// closed, and their opens, locks and delegations are revoked.
func (s *Server) SetExports(list []nfsserver.Export) error { return s.exports.SetExports(list) }

// Exports returns the current exports.
func (s *Server) Exports() []nfsserver.Export { return s.exports.Exports() }
