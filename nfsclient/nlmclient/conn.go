package nlmclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A lockManagerConn sends calls to the lock manager, and replaces its
// connection when it is lost.
type lockManagerConn struct {
	server *Server
	shared bool // the calls share the NFS connection

	sem chan struct{} // has an element while a goroutine connects

	mu         sync.Mutex
	caller     oncrpc.Caller // nil if not connected
	conn       io.Closer     // the caller's connection; nil if shared
	epoch      uint64        // number of connections so far
	sharedConn any           // last result of Server.Conn
}

// findLockManager connects to the server's lock manager.
func findLockManager(ctx context.Context, s *Server) (*lockManagerConn, error) {
	l := &lockManagerConn{server: s, sem: make(chan struct{}, 1)}
	step, cancel := context.WithTimeout(ctx, searchStep)
	nfs := s.tryNFSConn(step)
	cancel()
	if nfs == nil {
		l.shared, l.caller, l.sharedConn = true, s.NFS, s.Conn()
		return l, nil
	}
	ctx, cancel = context.WithTimeout(ctx, 2*searchStep)
	defer cancel()
	caller, conn, err := s.connectTCP(ctx)
	if err != nil {
		return nil, fmt.Errorf("no lock manager found on %s (on the NFS connection: %w; %w)", s.host(), nfs, err)
	}
	l.caller, l.conn = caller, conn
	return l, nil
}

// closeConn closes the connection unless it is shared.
func (l *lockManagerConn) closeConn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// currentEpoch returns the current connection's number. If it has changed, the
// server may have restarted.
func (l *lockManagerConn) currentEpoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared {
		if now := l.server.Conn(); now != l.sharedConn {
			l.sharedConn = now
			l.epoch++
		}
	}
	return l.epoch
}

// getCaller returns the current connection, and connects if there is none.
func (l *lockManagerConn) getCaller(ctx context.Context) (oncrpc.Caller, error) {
	if c := l.currentCaller(); c != nil {
		return c, nil
	}
	select {
	case l.sem <- struct{}{}:
		defer func() { <-l.sem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := l.currentCaller(); c != nil {
		return c, nil
	}
	step, cancel := context.WithTimeout(ctx, 2*searchStep)
	defer cancel()
	caller, conn, err := l.server.connectTCP(step)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.conn = caller, conn
	l.epoch++
	return caller, nil
}

func (l *lockManagerConn) currentCaller() oncrpc.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caller
}

// dropConn closes a connection on which a call has failed.
func (l *lockManagerConn) dropConn(c oncrpc.Caller) {
	l.mu.Lock()
	var conn io.Closer
	if !l.shared && l.caller == c {
		conn, l.caller, l.conn = l.conn, nil, nil
	}
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// callUntilReply sends a call until the server replies, over several
// connections if necessary. The error is a reply without results, or ctx's
// cause.
func (l *lockManagerConn) callUntilReply(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args []byte, decode func(r *xdr.Reader)) error {
	for pause := firstDialPause; ; pause = min(2*pause, lastDialPause) {
		err := l.callOnce(ctx, proc, cred, args, decode)
		if err == nil || isServerReply(err) {
			return err
		}
		if sleepContext(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
}

// callOnce sends a call over one connection.
func (l *lockManagerConn) callOnce(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args []byte, decode func(r *xdr.Reader)) error {
	c, err := l.getCaller(ctx)
	if err != nil {
		return err
	}
	x := oncrpc.Exchange{
		Prog: nlm4.Program, Vers: nlm4.Version, Proc: proc, Cred: *cred, Args: args, MaxResults: nlm4.MaxResult(proc),
	}
	if !l.shared { // the shared connection has its own timeouts
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	if err := c.Call(ctx, &x); err != nil {
		if !isServerReply(err) {
			l.dropConn(c)
		}
		return fmt.Errorf("NLM %s: %w", nlm4.ProcName(proc), err)
	}
	defer x.Release()
	decode(&x.Results)
	if err := x.Results.Done(); err != nil {
		return fmt.Errorf("NLM %s: %w: %w", nlm4.ProcName(proc), ErrReply, err)
	}
	return nil
}

// isServerReply reports whether an error is the server's reply.
func isServerReply(err error) bool {
	_, reply := errors.AsType[*oncrpc.ReplyError](err)
	_, auth := errors.AsType[rpcmsg.AuthError](err)
	return reply || auth || errors.Is(err, ErrReply)
}

func sleepContext(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
