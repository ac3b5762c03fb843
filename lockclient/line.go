package lockclient

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
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A line makes calls to the lock manager, over connections that it replaces.
type line struct {
	server *Server
	shared bool // the calls go over the connection of the NFS calls

	turn chan struct{} // holds an element while a goroutine connects

	mu     sync.Mutex
	caller oncrpc.Caller // nil: not connected
	conn   io.Closer     // of caller; nil: not ours
	epoch  uint64        // number of the connections so far
	shown  any           // of Server.Conn, when last asked
}

// find looks for the server's lock manager.
func find(ctx context.Context, s *Server) (*line, error) {
	l := &line{server: s, turn: make(chan struct{}, 1)}
	step, cancel := context.WithTimeout(ctx, searchStep)
	nfs := s.overNFS(step)
	cancel()
	if nfs == nil {
		l.shared, l.caller, l.shown = true, s.NFS, s.Conn()
		return l, nil
	}
	ctx, cancel = context.WithTimeout(ctx, 2*searchStep)
	defer cancel()
	caller, conn, err := s.overTCP(ctx)
	if err != nil {
		return nil, fmt.Errorf("no lock manager found on %s (on the connection of the NFS calls: %w; %w)", s.Host, nfs, err)
	}
	l.caller, l.conn = caller, conn
	return l, nil
}

// close ends the connection, if it is the line's own.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// at returns the number of the present connection: another number means that
// the server may have restarted.
func (l *line) at() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared {
		if now := l.server.Conn(); now != l.shown {
			l.shown = now
			l.epoch++
		}
	}
	return l.epoch
}

// present returns the connection, and connects if there is none.
func (l *line) present(ctx context.Context) (oncrpc.Caller, error) {
	if c := l.connected(); c != nil {
		return c, nil
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := l.connected(); c != nil {
		return c, nil
	}
	step, cancel := context.WithTimeout(ctx, 2*searchStep)
	defer cancel()
	caller, conn, err := l.server.overTCP(step)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.conn = caller, conn
	l.epoch++
	return caller, nil
}

func (l *line) connected() oncrpc.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caller
}

// drop closes a connection over which a call has failed.
func (l *line) drop(c oncrpc.Caller) {
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

// call makes a call, over as many connections as it takes for an answer. The
// error is an answer that is no result, or the cause of ctx's end.
func (l *line) call(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args []byte, decode func(r *xdr.Reader)) error {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := l.try(ctx, proc, cred, args, decode)
		if err == nil || answered(err) {
			return err
		}
		if sleep(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
}

// try makes a call over one connection.
func (l *line) try(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args []byte, decode func(r *xdr.Reader)) error {
	c, err := l.present(ctx)
	if err != nil {
		return err
	}
	x := oncrpc.Exchange{
		Prog: nlm4.Program, Vers: nlm4.Version, Proc: proc, Cred: *cred, Args: args, MaxResults: nlm4.MaxResult(proc),
	}
	if !l.shared { // the shared connection watches over itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	if err := c.Call(ctx, &x); err != nil {
		if !answered(err) {
			l.drop(c)
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

// answered reports whether an error is an answer of the server.
func answered(err error) bool {
	_, reply := errors.AsType[*oncrpc.ReplyError](err)
	_, auth := errors.AsType[rpcmsg.AuthError](err)
	return reply || auth || errors.Is(err, ErrReply)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
