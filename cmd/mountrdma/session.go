package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// errTimeout is the cause of a context that was canceled by --timeout.
var errTimeout = errors.New("timed out")

// A session is a client of a server, with facts about the server. Only one goroutine at a
// time may use a session; the nfsclient.FS values from it are safe for concurrent use.
type session struct {
	target server
	dialer *dialer // for the first server
	client *nfsrdma.Client
	line   *oncrpc.Line    // the first connection
	rdma   *rpcrdma.Client // line over RDMA; nil: over TCP
	nfs    *nfsclient.Client
	cred   rpcmsg.Cred

	contexts *tickets.Callers // nil: without Kerberos

	exports    []nfsclient.Export
	listed     map[string]bool // the paths of exports
	hasExports bool            // exports is set
	mounted    map[string]*nfsclient.FS

	invalidated atomic.Bool // the server has sent a Send With Invalidate

	exportsErr error // why exports is empty although the server may have some
}

// openSession returns the session with a server, which all URLs of a command share.
func (a *app) openSession(ctx context.Context, srv server) (*session, error) {
	return a.openSessionWith(ctx, srv, a.commandConfig())
}

// openSessionWith returns the session with a server. It uses cfg if there is none yet.
func (a *app) openSessionWith(ctx context.Context, srv server, cfg nfsrdma.ClientConfig) (*session, error) {
	if s := a.sessions[srv]; s != nil {
		return s, nil
	}
	s, err := a.connect(ctx, srv, cfg)
	if err != nil {
		return nil, err
	}
	if a.sessions == nil {
		a.sessions = make(map[server]*session)
	}
	a.sessions[srv] = s
	return s, nil
}

// connect connects once, and checks that an NFSv3 server responds.
func (a *app) connect(ctx context.Context, srv server, cfg nfsrdma.ClientConfig) (*session, error) {
	if err := a.enableRecording(&cfg.IWARP); err != nil {
		return nil, err
	}
	s := &session{target: srv, cred: a.callCred(), mounted: make(map[string]*nfsclient.FS)}
	cfg.TCP, cfg.ClearMOUNT = a.overTCP(), a.clearMount
	cfg.MountHost, cfg.MountPort, cfg.NFS.Cred = srv.mountHost, srv.mountPort, &s.cred
	cfg.Dialer = func(device *iwarp.Device) rdma.Dialer {
		d := &dialer{device, &s.invalidated}
		s.dialer = cmp.Or(s.dialer, d)
		return d
	}
	if err := errors.Join(a.setTLS(srv, &cfg), a.setSecurity(s, &cfg)); err != nil {
		return nil, err
	}
	client, err := nfsrdma.Dial(ctx, srv.addr(), cfg)
	if all, ok := errors.AsType[*serverlist.Error](err); ok {
		return nil, newListError(ctx, all)
	}
	if step, ok := errors.AsType[*stepError](err); ok {
		return nil, step
	}
	if err != nil {
		return nil, firstCallError(ctx, srv.addr(), unwrapOnce(err))
	}
	s.client, s.line, s.nfs = client, client.Lines()[0], client.NFS()
	if conns := client.Conns(); len(conns) > 0 {
		s.rdma = conns[0]
	}
	return s, nil
}

// rdmaConn returns the current RDMA connection, or the last one.
func (s *session) rdmaConn() *iwarp.Conn { return s.rdma.Conn().Conn().(*iwarp.Conn) }

// netConn returns the TCP or TLS connection below the current connection, or the last one.
func (s *session) netConn() net.Conn {
	if s.rdma != nil {
		return s.rdmaConn().NetConn()
	}
	return s.line.Conn().(interface{ NetConn() net.Conn }).NetConn()
}

// unwrapOnce removes the text that package nfsrdma adds to an error. The command adds its
// own text instead.
func unwrapOnce(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// serverAddr returns the address of the server that serves, for messages.
func (s *session) serverAddr() string {
	if s.client == nil {
		return s.target.addr()
	}
	return s.client.Server()
}

// serverHost returns the host that serves.
func (s *session) serverHost() string {
	if s.target.list == "" {
		return s.target.host
	}
	host, _, _ := net.SplitHostPort(s.serverAddr()) // it has a port
	return host
}

// mountServiceAddr returns the address of the server's MOUNT service.
func (s *session) mountServiceAddr(ctx context.Context) (string, error) {
	m, err := s.client.MOUNT(ctx)
	if err != nil {
		return "", mountError(ctx, s.serverAddr(), unwrapOnce(err))
	}
	return m.At(), nil
}

// close unmounts the exports on the server and closes the connections.
func (s *session) close() {
	s.closeContexts()
	_ = s.client.Close()
}
