package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestCuts cuts the connection at each byte of each change and its reply: the
// change is made exactly once. A second one would fail, or increment its
// stateid's seqid.
//
// R8881-2.9.2-2, R8881-2.10.6.2-1, R8881-2.10.13.1.2-1, R8267-6.6-2,
// R8267-6.7.2-3.
func TestCuts(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	h, ctx := exportRoot(t, s), t.Context()
	mkdir := func(t *testing.T, name string) {
		_, err := s.Mkdir(ctx, h, name, 0o755)
		require.NoError(t, err)
	}
	var f *File
	open := func(t *testing.T, name string) {
		var err error
		f, err = s.Open(ctx, h, name, OpenFlags{Write: true, Create: true, Exclusive: true, Mode: 0o600})
		require.NoError(t, err)
	}
	shut := func(t *testing.T, _ string) { require.NoError(t, f.Close(ctx)) }
	nothing := func(*testing.T, string) {}
	for what, change := range map[string]struct {
		before, cut, after func(t *testing.T, name string)
	}{
		"CREATE": {nothing, mkdir, nothing},
		"OPEN": {nothing, open, func(t *testing.T, name string) {
			assert.Equal(t, uint32(1), f.stateID.SeqID, "%s: opens", name)
			shut(t, name)
		}},
		"CLOSE":  {open, shut, nothing},
		"REMOVE": {mkdir, func(t *testing.T, name string) { require.NoError(t, s.Remove(ctx, h, name)) }, nothing},
		"RENAME": {mkdir, func(t *testing.T, name string) { require.NoError(t, s.Rename(ctx, h, name, h, name+"'")) }, nothing},
		"LINK":   {open, func(t *testing.T, name string) { require.NoError(t, linkFile(ctx, s, f.fh, h, name+"'")) }, shut},
		"LOCK": {open, func(t *testing.T, name string) {
			id, err := lockByte(ctx, s, f)
			require.NoError(t, err)
			assert.Equal(t, uint32(1), id.SeqID, "%s: locks", name)
		}, shut},
	} {
		t.Run(what, func(t *testing.T) {
			cuts := 0
			for way := reading; way <= writing; way++ {
				for n, over := 0, false; !over; n++ {
					require.Less(t, n, 1000, "the call is longer than the cuts tried")
					name := fmt.Sprintf("%s-%d-%03d", what, way, n)
					change.before(t, name)
					c := g.lastConn()
					c.armAfter(way, n)
					change.cut(t, name)
					if over = c.disarmCut(way); !over {
						cuts++
					}
					change.after(t, name)
				}
			}
			t.Logf("%d cuts", cuts)
			assert.Greater(t, cuts, 200)
		})
	}
}

// linkFile gives a file another name.
func linkFile(ctx context.Context, s *Session, file, dir nfs4.FH, name string) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(file)
	c.Add(nfs4.OpSaveFH, &void, &c.statusRes)
	c.PutFH(dir)
	c.Add(nfs4.OpLink, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes))
	return s.Do(ctx, c)
}

// lockByte locks a byte in an open file, and returns the locks' stateid.
func lockByte(ctx context.Context, s *Session, f *File) (nfs4.StateID, error) {
	c := s.getCompound()
	defer s.putCompound(c)
	var res nfs4.LockRes
	c.PutFH(f.fh)
	c.Add(nfs4.OpLock, &nfs4.LockArgs{
		Type: nfs4.LockWrite, Length: 1, New: true, StateID: f.stateID, Owner: nfs4.StateOwner{Owner: f.owner[:]},
	}, &res)
	err := s.Do(ctx, c)
	return res.StateID, err
}

// TestFileCuts does the same with OPEN, WRITE and CLOSE.
//
// R8881-2.10.13.1.2-1.
func TestFileCuts(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	h, ctx := exportRoot(t, s), t.Context()
	for n := 0; n < 900; n += 7 {
		way := n % 2
		g.lastConn().armAfter(way, n)
		f, err := s.Open(ctx, h, fmt.Sprint(n), OpenFlags{Read: true, Write: true, Create: true, Exclusive: true, Mode: 0o600})
		require.NoError(t, err, n)
		_, err = f.WriteAt(ctx, []byte("data"), 0, nfs4.FileSync)
		require.NoError(t, err, n)
		p := make([]byte, 10)
		m, err := f.ReadAt(ctx, p, 0)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, "data", string(p[:m]))
		require.NoError(t, f.Close(ctx), n)
		require.NoError(t, s.Remove(ctx, h, fmt.Sprint(n)))
	}
}

// A fakeAbandoningConn is a Conn that abandons calls: it waits until a call's
// context ends before the call is sent, or after the call was executed.
type fakeAbandoningConn struct {
	Conn
	mu            sync.Mutex
	before, after bool
	entered       chan struct{}
}

func (a *fakeAbandoningConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	a.mu.Lock()
	before, after := a.before, a.after
	a.before, a.after = false, false
	a.mu.Unlock()
	if after {
		if err := a.Conn.Call(ctx, x); err != nil {
			return err
		}
		x.Release()
	}
	if before || after {
		a.entered <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return a.Conn.Call(ctx, x)
}

// TestAbandoned checks that a slot whose call was abandoned is used on, whether
// or not the server saw the call.
//
// R8881-2.10.6.2-2.
func TestAbandoned(t *testing.T) {
	g := newTestServer(t)
	a := &fakeAbandoningConn{entered: make(chan struct{})}
	g.wrapConn = func(c Conn) Conn {
		a.Conn = c
		return a
	}
	s := g.newSession(func(c *Config) { c.Slots = 1 })
	h := exportRoot(t, s)
	id := s.Server().Session
	for _, executed := range []bool{false, true} {
		a.mu.Lock()
		a.before, a.after = !executed, executed
		a.mu.Unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("cause")
		go func() {
			<-a.entered
			cancel(cause)
		}()
		_, err := s.Mkdir(ctx, h, "d", 0o755)
		assert.Equal(t, cause, err)
		_, err = s.Mkdir(t.Context(), h, fmt.Sprint("next", executed), 0o755)
		require.NoError(t, err)
		_, err = s.Walk(t.Context(), "a/b/d")
		assert.Equal(t, executed, err == nil)
	}
	assert.Equal(t, id, s.Server().Session, "the session survived")
}

// TestRestart restarts the server: files are opened anew, and the same File goes
// on.
//
// R8881-18.51.3-6.
//
// R8881-2.4-6, R8881-8.3-4.
func TestRestart(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	h, ctx := exportRoot(t, s), t.Context()
	f, err := s.Open(ctx, h, "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	gone, err := s.Open(ctx, h, "gone", OpenFlags{Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	for i := range 3 {
		_, err = f.WriteAt(ctx, []byte("data"), uint64(4*i), nfs4.Unstable)
		require.NoError(t, err)
		if i == 1 {
			other := newSession(t, g)
			require.NoError(t, other.Remove(ctx, h, "gone"))
		}
		g.restartServer()
	}
	p := make([]byte, 20)
	n, err := f.ReadAt(ctx, p, 0)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "datadatadata", string(p[:n]))
	_, err = gone.WriteAt(ctx, p, 0, nfs4.Unstable)
	assert.ErrorIs(t, err, nfs4.ErrStale)
	assert.ErrorIs(t, gone.Close(ctx), nfs4.ErrStale)
	require.NoError(t, f.Close(ctx))
}

func newSession(t *testing.T, g *testServer) *Session {
	t.Helper()
	s, err := Dial(t.Context(), Config{Dial: g.dialServer, Network: "tcp", Minor: 2, Cred: asRoot})
	require.NoError(t, err)
	closeLater(t, s)
	return s
}

// TestRestartUnderLoad restarts the server again and again under many calls.
func TestRestartUnderLoad(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession(func(c *Config) { c.Slots = 4 })
	h, ctx := exportRoot(t, s), t.Context()
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range 8 {
		all.Go(func() {
			f, err := s.Open(ctx, h, fmt.Sprint(i), OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
			if !assert.NoError(t, err) {
				return
			}
			for n := 0; ; n++ {
				_, err := f.WriteAt(ctx, fmt.Appendf(nil, "%08d", n), 0, nfs4.Unstable)
				assert.NoError(t, err)
				p := make([]byte, 8)
				_, err = f.ReadAt(ctx, p, 0)
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, fmt.Sprintf("%08d", n), string(p))
				select {
				case <-stop:
					assert.NoError(t, f.Close(ctx))
					return
				default:
				}
			}
		})
	}
	for i := range 6 {
		time.Sleep(20 * time.Millisecond)
		if i%2 == 0 {
			g.restartServer()
		} else {
			g.cutConns()
		}
	}
	close(stop)
	all.Wait()
}

// TestLostSession destroys the session behind the client's back: the client ID
// and its opens stay.
//
// R8881-2.10.13.1.4-1.
func TestLostSession(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	h, ctx := exportRoot(t, s), t.Context()
	f, err := s.Open(ctx, h, "f", OpenFlags{Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	before := s.Server()
	var c Compound
	c.Add(nfs4.OpDestroySession, &nfs4.SessionArgs{Session: before.Session}, &c.statusRes)
	require.NoError(t, s.doWithoutSequence(ctx, &c))
	c.Reset()
	_, err = f.WriteAt(ctx, []byte("data"), 0, nfs4.Unstable)
	require.NoError(t, err)
	after := s.Server()
	assert.Equal(t, before.ClientID, after.ClientID)
	assert.NotEqual(t, before.Session, after.Session)
	require.NoError(t, f.Close(ctx))
}

// TestAway checks that calls wait for a server that is away, but not longer than
// GiveUp.
func TestAway(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession(func(c *Config) { c.GiveUp = 30 * time.Millisecond })
	h := exportRoot(t, s)
	g.mu.Lock()
	g.refuseDials = 1
	g.mu.Unlock()
	g.cutConns()
	_, err := s.Access(t.Context(), h, 1)
	require.NoError(t, err)
	g.mu.Lock()
	g.refuseDials = 1 << 30
	g.mu.Unlock()
	g.cutConns()
	_, err = s.Access(t.Context(), h, 1)
	assert.ErrorIs(t, err, ErrUnreachable)
	g.mu.Lock()
	g.refuseDials = 0
	g.mu.Unlock()
	_, err = s.Access(t.Context(), h, 1)
	require.NoError(t, err)
}

// TestCloseWithoutServer checks that Close ends when its context does, although
// calls in flight wait, and that Close does not wait again for a server that
// calls could not reach.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const giveUp = time.Minute
		var p fakeServer
		line := &fakeClosingConn{fakeServer: &p}
		s, err := Dial(t.Context(), Config{Dial: line.dialConn, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
		require.NoError(t, err)
		line.silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.ErrorIs(t, s.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		assert.True(t, line.aborted.Load(), "an orderly end would wait for the server")

		for _, hangs := range []bool{false, true} { // attempts to connect
			p, line := fakeServer{}, &fakeClosingConn{hangs: hangs}
			line.fakeServer = &p
			s, err := Dial(t.Context(), Config{Dial: line.dialConn, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
			require.NoError(t, err)
			line.gone.Store(true)
			failed := make(chan error, 1)
			go func() { failed <- s.Sequence(context.Background()) }()
			time.Sleep(time.Second)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			assert.Error(t, s.Close(ctx))
			assert.LessOrEqual(t, time.Since(began), time.Second)
			assert.ErrorIs(t, <-failed, ErrClosed)
		}

		p = fakeServer{}
		line = &fakeClosingConn{fakeServer: &p}
		s, err = Dial(t.Context(), Config{Dial: line.dialConn, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
		require.NoError(t, err)
		line.gone.Store(true)
		for range 3 {
			began = time.Now()
			assert.ErrorIs(t, s.Sequence(t.Context()), ErrUnreachable)
			assert.Equal(t, giveUp, time.Since(began))
		}
		began = time.Now()
		assert.ErrorIs(t, s.Close(t.Context()), ErrUnreachable)
		assert.Zero(t, time.Since(began))
	})
}

// A fakeClosingConn is a fakeServer whose connection may close, or stop
// replying.
type fakeClosingConn struct {
	*fakeServer
	silent, gone, aborted atomic.Bool
	hangs                 bool
}

func (d *fakeClosingConn) dialConn(ctx context.Context) (Conn, error) {
	switch {
	case !d.gone.Load():
		return d, nil
	case d.hangs:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, io.ErrUnexpectedEOF
}

func (d *fakeClosingConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	switch {
	case d.gone.Load():
		return oncrpc.ErrClosed
	case d.silent.Load():
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return d.fakeServer.Call(ctx, x)
}

func (d *fakeClosingConn) Abort(error) { d.aborted.Store(true) }
