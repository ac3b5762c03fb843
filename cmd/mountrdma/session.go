package main

import (
	"context"
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/tickets"
)

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("timed out")

// A session is a client of a server, with the facts learned about the server.
// Only one goroutine at a time may use a session; the nfsclient.FS values from
// it are safe for concurrent use.
type session struct {
	at     server
	dial   *dialer
	client *nfsrdma.Client
	line   *oncrpc.Line    // the first connection
	rdma   *rpcrdma.Client // line over RDMA; nil: over TCP
	nfs    *nfsclient.Client
	cred   rpcmsg.Cred

	contexts *tickets.Callers // nil: without Kerberos

	exports []nfsclient.Export
	listed  bool // exports is set
	mounted map[string]*nfsclient.FS

	unlisted error // why exports is empty although the server may have some
}

// session returns the session with a server, which is shared by all URLs of a
// command.
func (a *app) session(ctx context.Context, srv server) (*session, error) {
	return a.sessionBy(ctx, srv, a.brief())
}

// sessionBy is session with a given configuration of the client.
func (a *app) sessionBy(ctx context.Context, srv server, cfg nfsrdma.ClientConfig) (*session, error) {
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

// connect connects once, and checks that an NFS server of version 3 answers.
func (a *app) connect(ctx context.Context, srv server, cfg nfsrdma.ClientConfig) (*session, error) {
	if err := a.recorded(&cfg.IWARP); err != nil {
		return nil, err
	}
	s := &session{at: srv, dial: new(dialer), cred: a.cred(), mounted: make(map[string]*nfsclient.FS)}
	cfg.TCP, cfg.ClearMOUNT = a.overTCP(), a.clear
	cfg.MountHost, cfg.MountPort, cfg.NFS.Cred = srv.mountHost, srv.mountPort, &s.cred
	cfg.Dialer = func(device *iwarp.Device) rdma.Dialer {
		s.dial.device = device
		return s.dial
	}
	if err := errors.Join(a.encrypt(srv, &cfg), a.secure(s, &cfg)); err != nil {
		return nil, err
	}
	client, err := nfsrdma.Dial(ctx, srv.addr(), cfg)
	if step, ok := errors.AsType[*stepError](err); ok {
		return nil, step
	}
	if err != nil {
		return nil, helloError(ctx, srv.addr(), bare(err))
	}
	s.client, s.line, s.nfs = client, client.Lines()[0], client.NFS()
	if conns := client.Conns(); len(conns) > 0 {
		s.rdma = conns[0]
	}
	return s, nil
}

// conn returns the present RDMA connection, or the last.
func (s *session) conn() *iwarp.Conn { return s.rdma.Conn().Conn().(*iwarp.Conn) }

// netConn returns the TCP connection, or TLS on it, below the present connection or the
// last.
func (s *session) netConn() net.Conn {
	if s.rdma != nil {
		return s.conn().NetConn()
	}
	return s.line.Conn().(interface{ NetConn() net.Conn }).NetConn()
}

// bare returns an error of package nfsrdma without the words that the package
// adds, in place of which the command has its own.
func bare(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// mountAt returns the address of the server's MOUNT service.
func (s *session) mountAt(ctx context.Context) (string, error) {
	m, err := s.client.MOUNT(ctx)
	if err != nil {
		return "", mountError(ctx, s.at.addr(), bare(err))
	}
	return m.At(), nil
}

// close ends the use of the exports and closes the connections.
func (s *session) close() {
	s.closeContexts()
	_ = s.client.Close()
}
