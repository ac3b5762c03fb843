package main

import (
	"context"
	"errors"
	"io"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("timed out")

// A session is a line to a server, with the facts learned about the server.
// Only one goroutine at a time may use a session; the nfsclient.FS values from
// it are safe for concurrent use.
type session struct {
	at   server
	dial *dialer
	line *rpcrdma.Client
	more []*rpcrdma.Client // of a mount
	held *delegclient.Set  // delegations of a mount; nil: none
	nfs  *nfsclient.Client
	cred rpcmsg.Cred

	mount   *nfsclient.Mount // nil: not looked for yet
	exports []nfsclient.Export
	listed  bool // exports is set
	mounted map[string]*nfsclient.FS
}

// session returns the session with a server, which is shared by all URLs of a
// command.
func (a *app) session(ctx context.Context, srv server) (*session, error) {
	return a.sessionBy(ctx, srv, a.brief())
}

// sessionBy is session with a given configuration of the line.
func (a *app) sessionBy(ctx context.Context, srv server, cfg rpcrdma.ClientConfig) (*session, error) {
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
func (a *app) connect(ctx context.Context, srv server, cfg rpcrdma.ClientConfig) (*session, error) {
	rnic := a.rnic()
	if err := a.recorded(&rnic); err != nil {
		return nil, err
	}
	d := &dialer{device: iwarp.Open(rnic)}
	line, err := rpcrdma.Dial(ctx, d, srv.addr(), cfg)
	if err != nil {
		return nil, err
	}
	first := line.Conn()
	if err := nfsclient.New(first, nfsclient.Config{}).Null(ctx); err != nil {
		first.Conn().Abort(err) // a silent server would not answer a goodbye either
		_ = line.Close()
		return nil, helloError(ctx, srv.addr(), err)
	}
	s := &session{at: srv, dial: d, line: line, cred: a.cred(), mounted: make(map[string]*nfsclient.FS)}
	s.nfs = nfsclient.New(line, nfsclient.Config{Cred: &s.cred, Window: writeWindow})
	return s, nil
}

// findMount finds the MOUNT service once.
func (s *session) findMount(ctx context.Context) error {
	if s.mount != nil {
		return nil
	}
	search := s.search()
	m, err := search.Find(ctx)
	if err != nil {
		return mountError(ctx, s.at.addr(), err)
	}
	s.mount = m
	return nil
}

// search returns the parameters of the search for the MOUNT service.
func (s *session) search() nfsclient.MountSearch {
	return nfsclient.MountSearch{
		NFS: s.line, NFSAddr: "RDMA " + s.at.addr(), Host: s.at.host,
		Dial: dialTCP, MountHost: s.at.mountHost, MountPort: s.at.mountPort, Cred: &s.cred,
	}
}

func dialTCP(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	c, err := oncrpc.DialTCP(ctx, addr, oncrpc.ClientConfig{})
	if err != nil {
		return nil, nil, err // avoids a nil *TCPClient in an interface
	}
	return c, c, nil
}

// closeMount closes the connection to mountd, which is not needed while exports
// are in use, and which mountd would close at some time.
func (s *session) closeMount() {
	_ = s.mount.Close()
	s.mount = nil
}

// close ends the use of the exports and closes the connection.
func (s *session) close() {
	s.goodbye()
	for _, l := range s.lines() {
		_ = l.Close()
	}
	s.held.Close()
}

// goodbye tells the server that its exports are no longer used. Servers do not
// depend on this call.
func (s *session) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	if s.mount == nil && (len(s.mounted) == 0 || s.findMount(ctx) != nil) {
		return
	}
	for path := range s.mounted {
		_ = s.mount.Umnt(ctx, path)
	}
	_ = s.mount.Close()
}
