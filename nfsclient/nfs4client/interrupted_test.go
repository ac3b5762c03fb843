package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A fakeLateConn is a Conn that keeps the reply to the next call: it sends to executed when the server
// has executed the call, and then waits for an error to return, or for the end of the call's context.
type fakeLateConn struct {
	Conn
	*lateReply
}

// A lateReply is what all connections of a fakeLateConn's Session have in common.
type lateReply struct {
	isLate   atomic.Bool
	executed chan struct{}
	reply    chan error
}

// newLateSession creates a session whose connections are fakeLateConns.
func newLateSession(g *testServer, slots int) (*Session, *lateReply) {
	late := &lateReply{executed: make(chan struct{}), reply: make(chan error)}
	g.wrapConn = func(c Conn) Conn { return &fakeLateConn{c, late} }
	return g.newSession(func(c *Config) { c.Slots = slots }), late
}

// finishCall lets the late call return.
func (l *lateReply) finishCall(t *testing.T, err error) {
	t.Helper()
	select {
	case l.reply <- err:
	case <-time.After(5 * time.Second):
		require.Fail(t, "no call waits for its reply")
	}
}

func (c *fakeLateConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if !c.isLate.Swap(false) {
		return c.Conn.Call(ctx, x)
	}
	if err := c.Conn.Call(ctx, x); err != nil {
		return err
	}
	c.executed <- struct{}{}
	select {
	case err := <-c.reply:
		if err != nil {
			x.Release()
		}
		return err
	case <-ctx.Done():
		x.Release()
		return context.Cause(ctx)
	}
}

// interruptOpen opens a file, and ends the call's context when the server has opened it.
func interruptOpen(t *testing.T, s *Session, c *lateReply, name string) {
	t.Helper()
	h := exportRoot(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cause")
	c.isLate.Store(true)
	go func() {
		<-c.executed
		cancel(cause)
	}()
	_, err := s.Open(ctx, h, name, OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
	require.Equal(t, cause, err)
}

// opens returns the number of opens of the server's only client.
func (g *testServer) opens() int {
	list, _ := g.server.Clients(1)
	require.Len(g.t, list, 1)
	return list[0].Opens
}

// TestInterruptedOpen checks that a file whose open was interrupted is closed when the reply arrives,
// that its slot is used on, and that neither a lost connection nor a reply that never arrives keeps
// anything waiting.
func TestInterruptedOpen(t *testing.T) {
	g := newTestServer(t)
	s, c := newLateSession(g, 2)
	ctx := t.Context()
	h := exportRoot(t, s)
	id := s.Server().Session
	for i := range 3 {
		interruptOpen(t, s, c, fmt.Sprint(i))
		require.Equal(t, 1, g.opens())
		_, err := s.Mkdir(ctx, h, fmt.Sprint("meanwhile", i), 0o755)
		require.NoError(t, err, "the other slot")
		c.finishCall(t, nil)
		require.Eventually(t, func() bool { return g.opens() == 0 }, time.Minute, time.Millisecond)
	}

	interruptOpen(t, s, c, "lost")
	c.finishCall(t, oncrpc.ErrClosed)
	for i := range 3 { // in each slot
		_, err := s.Mkdir(ctx, h, fmt.Sprint("later", i), 0o755)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, g.opens(), "no reply contains the stateid")
	assert.Equal(t, id, s.Server().Session, "the session survived")

	interruptOpen(t, s, c, "never") // Close does not wait for the reply
}

// TestInterruptedOpenUnsent checks that an OPEN that waits for a slot, or for a connection, is not sent
// after its context has ended.
func TestInterruptedOpenUnsent(t *testing.T) {
	g := newTestServer(t)
	s, c := newLateSession(g, 1)
	h := exportRoot(t, s)
	open := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.Open(ctx, h, name, OpenFlags{Write: true, Create: true, Mode: 0o600})
		return err
	}
	interruptOpen(t, s, c, "first")
	require.ErrorIs(t, open("slot"), context.DeadlineExceeded)
	c.finishCall(t, nil)
	require.Eventually(t, func() bool { return g.opens() == 0 }, time.Minute, time.Millisecond)

	g.mu.Lock()
	g.refuseDials = 1 << 30
	g.mu.Unlock()
	g.cutConns()
	require.ErrorIs(t, open("connection"), context.DeadlineExceeded)
	g.mu.Lock()
	g.refuseDials = 0
	g.mu.Unlock()
	for _, name := range []string{"slot", "connection"} {
		_, err := s.Walk(t.Context(), "a/b/"+name)
		assert.Error(t, err, name)
	}
	assert.Zero(t, g.opens())
}
