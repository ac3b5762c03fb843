package nlmclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A fakeNet connects to a lock manager found by an rpcbind, which returns
// another port each time.
type fakeNet struct {
	s *nlm4test.Server

	mu    sync.Mutex
	port  uint16
	dials []string
	conns map[*fakeConn]bool // open
	down  bool
}

type fakeConn struct {
	n       *fakeNet
	rpcbind bool
	gone    bool
}

func (n *fakeNet) dialAddr(_ context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, nil, nlm4test.ErrLost
	}
	n.dials = append(n.dials, addr)
	c := &fakeConn{n: n, rpcbind: addr == "srv:111"}
	n.conns[c] = true
	return c, c, nil
}

func (c *fakeConn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	delete(c.n.conns, c)
	return nil
}

func (c *fakeConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	c.n.mu.Lock()
	defer func() { c.n.mu.Unlock() }()
	switch {
	case c.gone:
		return oncrpc.ErrClosed
	case c.rpcbind:
		if x.Prog != rpcbind.Program {
			return &oncrpc.ReplyError{Stat: rpcmsg.ProgUnavail}
		}
		c.n.port++
		x.Results = xdr.NewReader(xdr.AppendUint32(nil, uint32(c.n.port)))
		return nil
	}
	c.n.mu.Unlock()
	err := c.n.s.Call(ctx, x)
	c.n.mu.Lock()
	return err
}

// cutConns closes all connections.
func (n *fakeNet) cutConns(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for c := range n.conns {
		c.gone = true
	}
}

// TestOverTCP finds the lock manager by rpcbind, loses the connection, and finds
// the lock manager at another port: the client then claims its locks again
// (RNLM-6.1.3-1).
func TestOverTCP(t *testing.T) {
	s := nlm4test.New(t)
	n := &fakeNet{s: s, port: 4000, conns: make(map[*fakeConn]bool)}
	nfs := callerFunc(func(context.Context, *oncrpc.Exchange) error { return &oncrpc.ReplyError{Stat: rpcmsg.ProgUnavail} })
	c := newClient(t, s, func(cfg *Config) { cfg.Server = Server{NFS: nfs, Hosts: []string{"srv"}, Dial: n.dialAddr} })
	assert.False(t, c.lockManager.shared)
	assert.Equal(t, []string{"srv:111", "srv:4001"}, n.dials)
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	want := s.Held("f")
	s.Restart(true)
	n.cutConns(true)
	requireEventually(t, "notices", func() bool { return c.lockManager.currentCaller() == nil })
	n.cutConns(false)
	requireEventually(t, "claimed", func() bool { return assert.ObjectsAreEqual(want, s.Held("f")) })
	s.EndGrace()
	n.mu.Lock()
	assert.Equal(t, []string{"srv:111", "srv:4001", "srv:111", "srv:4002"}, n.dials)
	n.mu.Unlock()
	c.Close()
	assert.Empty(t, s.Held("f"))
	assert.Empty(t, n.conns, "connections left open")
}

type callerFunc func(context.Context, *oncrpc.Exchange) error

func (f callerFunc) Call(ctx context.Context, x *oncrpc.Exchange) error { return f(ctx, x) }

// TestSilentServer checks that a call over TCP that gets no reply is sent again
// over another connection, and that cancelling the context stops the calls.
func TestSilentServer(t *testing.T) {
	s := nlm4test.New(t)
	n := &fakeNet{s: s, port: 4000, conns: make(map[*fakeConn]bool)}
	c := newClient(t, s, func(cfg *Config) { cfg.Server = Server{Hosts: []string{"srv"}, Dial: n.dialAddr} })
	why := errors.New("a signal")
	ctx, end := context.WithCancelCause(t.Context())
	n.cutConns(true)
	done := c.lockLater(ctx, newRequest(1, wholeFile, true, true))
	requireEventually(t, "notices", func() bool { return c.lockManager.currentCaller() == nil })
	end(why)
	require.ErrorIs(t, <-done, why)
	n.cutConns(false)
	requireEventually(t, "settled", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files) == 0 })
	assert.Empty(t, s.Held("f"))
	c.mustLock(t, newRequest(2, rangeAt(0, locks.ToEnd), true, false))
	assert.GreaterOrEqual(t, s.Count(nlm4.ProcNull), 2, "a connection was looked for again")
	n.mu.Lock()
	assert.Len(t, n.conns, 1, "connections left open")
	n.mu.Unlock()
}
