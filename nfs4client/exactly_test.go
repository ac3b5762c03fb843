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

// TestCuts cuts the connection at each byte of each change and of its reply:
// the change is made exactly once. A second one would fail, or count on in the
// seqid of its stateid.
//
// R8881-2.9.2-2, R8881-2.10.6.2-1, R8881-2.10.13.1.2-1, R8267-6.6-2,
// R8267-6.7.2-3.
func TestCuts(t *testing.T) {
	g := newRig(t)
	s := g.connect()
	h, ctx := home(t, s), t.Context()
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
			assert.Equal(t, uint32(1), f.id.SeqID, "%s: opens", name)
			shut(t, name)
		}},
		"CLOSE":  {open, shut, nothing},
		"REMOVE": {mkdir, func(t *testing.T, name string) { require.NoError(t, s.Remove(ctx, h, name)) }, nothing},
		"RENAME": {mkdir, func(t *testing.T, name string) { require.NoError(t, s.Rename(ctx, h, name, h, name+"'")) }, nothing},
		"LINK":   {open, func(t *testing.T, name string) { require.NoError(t, link(ctx, s, f.fh, h, name+"'")) }, shut},
		"LOCK": {open, func(t *testing.T, name string) {
			id, err := lock(ctx, s, f)
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
					c := g.last()
					c.arm(way, n)
					change.cut(t, name)
					if over = c.disarm(way); !over {
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

// link gives a file another name.
func link(ctx context.Context, s *Session, file, dir nfs4.FH, name string) error {
	c := s.compound()
	defer s.put(c)
	c.PutFH(file)
	c.Add(nfs4.OpSaveFH, &void, &c.done)
	c.PutFH(dir)
	c.Add(nfs4.OpLink, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes))
	return s.Do(ctx, c)
}

// lock locks a byte of an open file, and returns the stateid of its locks.
func lock(ctx context.Context, s *Session, f *File) (nfs4.StateID, error) {
	c := s.compound()
	defer s.put(c)
	var res nfs4.LockRes
	c.PutFH(f.fh)
	c.Add(nfs4.OpLock, &nfs4.LockArgs{
		Type: nfs4.LockWrite, Length: 1, New: true, StateID: f.id, Owner: nfs4.StateOwner{Owner: f.owner[:]},
	}, &res)
	err := s.Do(ctx, c)
	return res.StateID, err
}

// TestFileCuts does the same with OPEN, WRITE and CLOSE.
//
// R8881-2.10.13.1.2-1.
func TestFileCuts(t *testing.T) {
	g := newRig(t)
	s := g.connect()
	h, ctx := home(t, s), t.Context()
	for n := 0; n < 900; n += 7 {
		way := n % 2
		g.last().arm(way, n)
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

// An absent is a Conn that abandons calls: an absent waits for the end of a
// call's context before the call is sent, or after the call was executed.
type absent struct {
	Conn
	mu            sync.Mutex
	before, after bool
	entered       chan struct{}
}

func (a *absent) Call(ctx context.Context, x *oncrpc.Exchange) error {
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
	g := newRig(t)
	a := &absent{entered: make(chan struct{})}
	g.wrap = func(c Conn) Conn {
		a.Conn = c
		return a
	}
	s := g.connect(func(c *Config) { c.Slots = 1 })
	h := home(t, s)
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
	g := newRig(t)
	s := g.connect()
	h, ctx := home(t, s), t.Context()
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
		g.restart()
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

func newSession(t *testing.T, g *rig) *Session {
	t.Helper()
	s, err := Dial(t.Context(), Config{Dial: g.dial, Network: "tcp", Minor: 2, Cred: asRoot})
	require.NoError(t, err)
	closeLater(t, s)
	return s
}

// TestRestartUnderLoad restarts the server again and again under many calls.
func TestRestartUnderLoad(t *testing.T) {
	g := newRig(t)
	s := g.connect(func(c *Config) { c.Slots = 4 })
	h, ctx := home(t, s), t.Context()
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
			g.restart()
		} else {
			g.cut()
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
	g := newRig(t)
	s := g.connect()
	h, ctx := home(t, s), t.Context()
	f, err := s.Open(ctx, h, "f", OpenFlags{Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	before := s.Server()
	var c Compound
	c.Add(nfs4.OpDestroySession, &nfs4.SessionArgs{Session: before.Session}, &c.done)
	require.NoError(t, s.bare(ctx, &c))
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
	g := newRig(t)
	s := g.connect(func(c *Config) { c.GiveUp = 30 * time.Millisecond })
	h := home(t, s)
	g.mu.Lock()
	g.refuse = 1
	g.mu.Unlock()
	g.cut()
	_, err := s.Access(t.Context(), h, 1)
	require.NoError(t, err)
	g.mu.Lock()
	g.refuse = 1 << 30
	g.mu.Unlock()
	g.cut()
	_, err = s.Access(t.Context(), h, 1)
	assert.ErrorIs(t, err, ErrUnreachable)
	g.mu.Lock()
	g.refuse = 0
	g.mu.Unlock()
	_, err = s.Access(t.Context(), h, 1)
	require.NoError(t, err)
}

// TestCloseWithoutServer checks that Close ends when its context does, although
// calls under way wait, and that Close does not wait once more for a server that
// calls have given up.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const giveUp = time.Minute
		var p puppet
		line := &departing{puppet: &p}
		s, err := Dial(t.Context(), Config{Dial: line.dial, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
		require.NoError(t, err)
		line.silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.ErrorIs(t, s.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		assert.True(t, line.aborted.Load(), "an orderly end would wait for the server")

		for _, hangs := range []bool{false, true} { // attempts to connect
			p, line := puppet{}, &departing{hangs: hangs}
			line.puppet = &p
			s, err := Dial(t.Context(), Config{Dial: line.dial, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
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

		p = puppet{}
		line = &departing{puppet: &p}
		s, err = Dial(t.Context(), Config{Dial: line.dial, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler), GiveUp: giveUp})
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

// A departing is a puppet whose connection may end, or fall silent.
type departing struct {
	*puppet
	silent, gone, aborted atomic.Bool
	hangs                 bool
}

func (d *departing) dial(ctx context.Context) (Conn, error) {
	switch {
	case !d.gone.Load():
		return d, nil
	case d.hangs:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, io.ErrUnexpectedEOF
}

func (d *departing) Call(ctx context.Context, x *oncrpc.Exchange) error {
	switch {
	case d.gone.Load():
		return oncrpc.ErrClosed
	case d.silent.Load():
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return d.puppet.Call(ctx, x)
}

func (d *departing) Abort(error) { d.aborted.Store(true) }
