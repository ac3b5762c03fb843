package nfs4client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestFiles uses every operation on files, over both transports and by both
// minor versions.
//
// R8881-18.16.4.1-1.
func TestFiles(t *testing.T) {
	for name, connect := range map[string]func(g *testServer) *Session{
		"TCP":      func(g *testServer) *Session { return g.newSession() },
		"TCP, 4.1": func(g *testServer) *Session { return g.newSession(func(c *Config) { c.Minor = 1 }) },
		"RDMA":     func(g *testServer) *Session { return g.newRDMASession() },
		"one slot": func(g *testServer) *Session { return g.newSession(func(c *Config) { c.Slots = 1 }) },
	} {
		t.Run(name, func(t *testing.T) {
			useFiles(t, connect(newTestServer(t)))
		})
	}
}

func useFiles(t *testing.T, s *Session) {
	ctx, h := t.Context(), exportRoot(t, s)
	f, err := s.Open(ctx, h, "f", OpenFlags{Read: true, Write: true, Create: true, Exclusive: true, Mode: 0o640})
	require.NoError(t, err)
	_, err = s.Open(ctx, h, "f", OpenFlags{Write: true, Create: true, Exclusive: true})
	assert.ErrorIs(t, err, fs.ErrExist)

	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<14) // 256 KiB
	for _, n := range []int{len(data), 5, 4096, 0} {
		res, err := f.WriteAt(ctx, data[:n], 3, nfs4.Unstable)
		require.NoError(t, err)
		assert.EqualValues(t, n, res.Count)
	}
	_, err = f.Commit(ctx)
	require.NoError(t, err)
	p := make([]byte, 1<<20)
	n, err := f.ReadAt(ctx, p, 3)
	assert.Equal(t, io.EOF, err)
	assert.True(t, bytes.Equal(data, p[:n]))
	n, err = f.ReadAt(ctx, p[:7], 4)
	assert.NoError(t, err)
	assert.Equal(t, data[1:8], p[:n])
	n, err = f.ReadAt(ctx, p[:7], 1<<40)
	assert.Equal(t, io.EOF, err)
	assert.Zero(t, n)

	attrs, err := s.GetAttr(ctx, f.Handle(), nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrType))
	require.NoError(t, err)
	assert.EqualValues(t, len(data)+3, attrs.Size)
	assert.EqualValues(t, 0o640, attrs.Mode)
	assert.Equal(t, "65534", string(attrs.Owner)) // root is squashed
	require.NoError(t, f.Truncate(ctx, 10))
	require.NoError(t, s.SetAttr(ctx, f.Handle(), &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o600}))
	attrs, err = s.GetAttr(ctx, f.Handle(), nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode))
	require.NoError(t, err)
	assert.EqualValues(t, 10, attrs.Size)
	assert.EqualValues(t, 0o600, attrs.Mode)
	rights, err := s.Access(ctx, f.Handle(), nfs4.AccessRead|nfs4.AccessModify)
	require.NoError(t, err)
	assert.Equal(t, nfs4.AccessRead|nfs4.AccessModify, rights)
	require.NoError(t, f.Close(ctx))

	dir, err := s.Mkdir(ctx, h, "d", 0o755)
	require.NoError(t, err)
	require.NoError(t, s.Rename(ctx, h, "f", dir, "g"))
	assert.ErrorIs(t, s.Remove(ctx, h, "f"), fs.ErrNotExist)
	assert.ErrorIs(t, s.Remove(ctx, h, "d"), syscall.ENOTEMPTY)
	require.NoError(t, s.Remove(ctx, dir, "g"))
	require.NoError(t, s.Remove(ctx, h, "d"))
	useNames(t, s)
}

// useNames walks deep paths and lists a directory that needs several calls.
func useNames(t *testing.T, s *Session) {
	ctx, h := t.Context(), exportRoot(t, s)
	at, path := h, "a//b"
	for i := range 40 {
		var err error
		at, err = s.Mkdir(ctx, at, fmt.Sprint("deep", i), 0o755)
		require.NoError(t, err)
		path += fmt.Sprint("/deep", i)
	}
	deep, err := s.Walk(ctx, path)
	require.NoError(t, err)
	assert.Equal(t, at, deep)
	_, err = s.Walk(ctx, path+"/none")
	assert.ErrorIs(t, err, nfs4.ErrNoEnt)
	root, err := s.Walk(ctx, "/")
	require.NoError(t, err)
	assert.NotEmpty(t, root)
	for i := range 1000 {
		_, err := s.Mkdir(ctx, at, fmt.Sprintf("%0100d", i), 0o755)
		require.NoError(t, err)
	}
	n := 0
	for e, err := range s.ReadDir(ctx, at, nfs4.BitmapOf(nfs4.AttrType)) {
		require.NoError(t, err)
		assert.Equal(t, nfs4.TypeDir, e.Attrs.Type)
		n++
	}
	assert.Equal(t, 1000, n)
}

// TestServer checks a Session's description of its server, and the errors for
// servers with another version.
func TestServer(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	d := s.Server()
	assert.EqualValues(t, 40, d.Lease.Seconds())
	assert.EqualValues(t, 64, d.Fore.MaxRequests)
	assert.Len(t, d.Scope, 16)
	assert.NotZero(t, d.ClientID)
	assert.Equal(t, 1<<20, s.MaxRead())
	assert.Equal(t, 1<<20, s.MaxWrite())
	whole := g.mux.Swap(&oncrpc.Mux{})
	_, err := Dial(t.Context(), Config{Dial: g.dialServer, Network: "tcp", Minor: 2})
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
	g.mux.Store(whole)
}

// TestSlots has more callers than slots.
//
// R8881-18.36.3-9, R8881-18.51.3-2.
func TestSlots(t *testing.T) {
	s := newTestServer(t).newSession(func(c *Config) { c.Slots = 3 })
	h := exportRoot(t, s)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for j := range 10 {
				_, err := s.Mkdir(t.Context(), h, fmt.Sprint(i, " ", j), 0o755)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	g := s.current.Load()
	assert.Len(t, g.slots.slot, 3)
	total := uint32(0)
	for _, sl := range g.slots.slot {
		total += sl.nextSeqID - 1
	}
	assert.EqualValues(t, 200+1+1+1, total) // RECLAIM_COMPLETE, the lease time, LOOKUP
}

// TestRetarget checks that slots beyond sr_target_highest_slotid are left
// alone, and that calls waiting for one are served when the target rises, also
// above the number of slots in CREATE_SESSION's results.
//
// R8881-2.10.6.1-7, R8881-2.10.6.1-8, R8881-2.10.6.1-9.
func TestRetarget(t *testing.T) {
	var tab slotTable
	tab.initSlots(4, 2)
	take := func() (uint32, uint32) {
		var c Compound
		c.Reset()
		id, highest, err := tab.acquireSlot(t.Context(), &c)
		assert.NoError(t, err)
		return id, highest
	}
	for want := range uint32(2) {
		id, highest := take()
		assert.Equal(t, want, id)
		assert.Equal(t, want, highest)
	}
	tab.setTarget(0)
	tab.releaseSlot(1)
	got := make(chan uint32)
	go func() {
		id, _ := take()
		got <- id
	}()
	tab.releaseSlot(0)
	assert.EqualValues(t, 0, <-got)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cause")
	cancel(cause)
	var c Compound
	c.Reset()
	_, _, err := tab.acquireSlot(ctx, &c)
	assert.Equal(t, cause, err)
	assert.Empty(t, tab.waiting)
	go func() {
		id, _ := take()
		got <- id
	}()
	tab.setTarget(^uint32(0))
	assert.EqualValues(t, 1, <-got)
	for want := uint32(2); want < 4; want++ {
		id, _ := take()
		assert.Equal(t, want, id)
	}
	_, ok := tab.freeLocked()
	assert.False(t, ok, "the Session has requested no more")
	tab.breakSession()
	_, _, err = tab.acquireSlot(t.Context(), &c)
	assert.ErrorIs(t, err, errBroken)
}

// TestClose checks that calls on a closed Session fail, and that Close cancels
// the calls in flight.
func TestClose(t *testing.T) {
	g := newTestServer(t)
	s, err := Dial(t.Context(), Config{Dial: g.dialServer, Network: "tcp", Minor: 1, Cred: asRoot})
	require.NoError(t, err)
	h := exportRoot(t, s)
	require.NoError(t, s.Close(t.Context()))
	_, err = s.Access(t.Context(), h, 1)
	assert.ErrorIs(t, err, ErrClosed)
}
