package main

import (
	"context"
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// errTimeout is the cause of an end by --timeout.
var errTimeout = errors.New("timed out")

// A session is a connection to a server, with what was found out there. One
// goroutine at a time uses it; the nfsclient.FS that it returns are for many.
type session struct {
	at   server
	line *line
	conn *iwarp.Conn
	nfs  *nfsclient.Client
	cred oncrpc.Cred

	mount   *nfsclient.Mount // nil: not looked for yet
	exports []nfsclient.Export
	listed  bool // exports are known
	mounted map[string]*nfsclient.FS
}

// session returns the session with a server, which all URLs of a command share.
func (a *app) session(ctx context.Context, srv server) (*session, error) {
	if s := a.sessions[srv]; s != nil {
		return s, nil
	}
	s, err := a.connect(ctx, srv)
	if err != nil {
		return nil, err
	}
	if a.sessions == nil {
		a.sessions = make(map[server]*session)
	}
	a.sessions[srv] = s
	return s, nil
}

// connect connects, and makes sure that an NFS server of version 3 answers.
func (a *app) connect(ctx context.Context, srv server) (*session, error) {
	d := &dialer{config: iwarp.Config{CRC: a.policy(), StartupTimeout: a.timeout}, ear: new(ear)}
	client, err := rpcrdma.Dial(ctx, d, srv.addr(), rpcrdma.ClientConfig{Inline: int(a.inline), Credits: a.credits})
	if err != nil {
		return nil, err
	}
	s := &session{at: srv, line: newLine(client, d, srv.addr(), a.timeout), cred: a.cred()}
	s.conn = client.Conn().(*iwarp.Conn)
	s.nfs = nfsclient.New(s.line, nfsclient.Config{Cred: &s.cred, Window: writeWindow})
	s.mounted = make(map[string]*nfsclient.FS)
	if err := s.nfs.Null(ctx); err != nil {
		s.conn.Abort(err) // a server that says nothing would not say goodbye either
		s.line.close()
		return nil, helloError(ctx, srv.addr(), err)
	}
	return s, nil
}

// findMount looks for the MOUNT service, once.
func (s *session) findMount(ctx context.Context) error {
	if s.mount != nil {
		return nil
	}
	search := nfsclient.MountSearch{
		NFS: s.line, NFSAddr: "RDMA " + s.at.addr(), Host: s.at.host,
		Dial: dialTCP, MountHost: s.at.mountHost, MountPort: s.at.mountPort, Cred: &s.cred,
	}
	m, err := search.Find(ctx)
	if err != nil {
		return mountError(ctx, s.at.addr(), err)
	}
	s.mount = m
	return nil
}

func dialTCP(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	c, err := oncrpc.DialTCP(ctx, addr, oncrpc.ClientConfig{})
	if err != nil {
		return nil, nil, err // not a nil *TCPClient in an interface
	}
	return c, c, nil
}

// close says goodbye and ends the connection.
func (s *session) close() {
	if s.mount != nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
		for path := range s.mounted {
			_ = s.mount.Umnt(ctx, path) // nothing depends on it
		}
		cancel()
		_ = s.mount.Close()
	}
	s.line.close()
}
