package nlmclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestLockUnlock checks what LOCK, UNLOCK and TEST carry, and that conflicts
// within the mount take no call (RNLM-6.1.4-4, RNLM-LINUX-7, RNLM-LINUX-4,
// RNLM-XDR-1; the server checks the credential, RNLM-6.1.1-1).
func TestLockUnlock(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	c.mustLock(t, newRequest(1, rangeAt(20, locks.ToEnd), false, false))
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(0, 9), Kind: locks.Exclusive}, {Range: rangeAt(20, locks.ToEnd), Kind: locks.Shared}}, s.Held("f"))
	for i, a := range s.Log() {
		assert.Equal(t, "h1", string(a.Lock.Caller))
		assert.Equal(t, fmt.Sprintf("%d@h1", a.Lock.SVID), string(a.Lock.Owner))
		assert.Equal(t, []byte{0, 0, 0, byte(i + 1)}, a.Cookie)
		assert.Positive(t, a.Lock.SVID)
		assert.False(t, a.Reclaim || a.Block)
	}
	assert.Equal(t, s.Log()[0].Lock.SVID, s.Log()[1].Lock.SVID)

	calls := s.Count(nlm4.ProcLock)
	assert.ErrorIs(t, c.Lock(t.Context(), newRequest(2, rangeAt(5, 30), false, false)), ErrDenied)
	h, found, err := c.Test(t.Context(), newRequest(2, rangeAt(5, 30), true, false))
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, Holder{rangeAt(0, 9), true, 1}, h)
	assert.Equal(t, calls, s.Count(nlm4.ProcLock))
	assert.Zero(t, s.Count(nlm4.ProcTest))

	require.NoError(t, c.Unlock(t.Context(), []byte("f"), Owner{ID: 1}, rangeAt(3, 4)))
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(0, 2), Kind: locks.Exclusive}, {Range: rangeAt(5, 9), Kind: locks.Exclusive}, {Range: rangeAt(20, locks.ToEnd), Kind: locks.Shared}}, s.Held("f"))
	c.mustLock(t, newRequest(2, rangeAt(3, 4), true, false))
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(3, 4), Kind: locks.Exclusive}}, s.Held("f"))

	calls = s.Count(nlm4.ProcUnlock)
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}), "nothing is left")
	require.NoError(t, c.Release(t.Context(), []byte("g"), Owner{ID: 2}), "nothing is locked")
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 2, Flock: true}), "another owner")
	assert.Equal(t, calls, s.Count(nlm4.ProcUnlock))
}

// TestTestRemote checks the holder that another host's lock shows.
func TestTestRemote(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	_, found, err := c.Test(t.Context(), newRequest(1, wholeFile, true, false))
	require.NoError(t, err)
	assert.False(t, found)
	s.Take("f", rangeAt(7, 8), true)
	h, found, err := c.Test(t.Context(), newRequest(1, wholeFile, false, false))
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, Holder{rangeAt(7, 8), true, 0}, h)
}

// TestStatus checks the error for each LOCK status (RNLM-6.1.4-1).
func TestStatus(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	for status, errno := range map[nlm4.Status]syscall.Errno{
		nlm4.Denied: syscall.EAGAIN, nlm4.DeniedNoLocks: syscall.ENOLCK, nlm4.Deadlock: syscall.EDEADLK,
		nlm4.ReadOnly: syscall.EROFS, nlm4.StaleFH: syscall.ESTALE, nlm4.TooBig: syscall.EOVERFLOW, nlm4.Failed: syscall.ENOLCK,
		10: syscall.ENOLCK,
	} {
		s.SetRefuse(func(proc uint32) (nlm4.Status, bool) { return status, proc == nlm4.ProcLock })
		if status == 10 { // not a protocol status
			s.SetBefore(func(*oncrpc.Exchange) (error, bool) { return ErrReply, false })
		}
		err := c.Lock(t.Context(), newRequest(1, wholeFile, true, false))
		assert.Equal(t, errno, Errno(err), "%v: %v", status, err)
		s.SetBefore(nil)
	}
	assert.Zero(t, Errno(nil))
}

// TestWaits checks that a waiter gets the lock once it is free, without a
// callback too, and that Close stops the wait.
func TestWaits(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	free := s.Take("f", rangeAt(0, 9), true)
	waits := c.lockLater(t.Context(), newRequest(1, rangeAt(5, 5), true, true))
	requireEventually(t, "asks again", func() bool { return s.Count(nlm4.ProcLock) > 2 })
	assert.Empty(t, waits)
	free()
	require.NoError(t, <-waits)
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(5, 5), Kind: locks.Exclusive}}, s.Held("f"))
	assert.False(t, s.Log()[0].Block, "a server that cannot call back must not let the request wait")

	waits = c.lockLater(t.Context(), newRequest(2, rangeAt(5, 5), true, true))
	requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == 1 })
	c.Close()
	assert.ErrorIs(t, <-waits, ErrClosed)
	assert.ErrorIs(t, c.Lock(t.Context(), newRequest(3, wholeFile, true, true)), ErrClosed)
	_, _, err := c.Test(t.Context(), newRequest(3, wholeFile, true, true))
	assert.ErrorIs(t, err, ErrClosed)
	assert.Empty(t, s.Held("f"), "Close unlocks")
}

// TestOrder has 1,000 requests for one byte: each gets the lock once, in order
// of arrival, and only one at a time is sent to the server.
func TestOrder(t *testing.T) {
	const waiters = 1000
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.mustLock(t, newRequest(1, rangeAt(0, 0), true, true))
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range waiters {
		w := newRequest(uint64(i+2), rangeAt(0, 0), true, true)
		all.Go(func() {
			if !assert.NoError(t, c.Lock(t.Context(), w)) {
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			assert.NoError(t, c.Unlock(t.Context(), w.Handle, w.Owner, w.Range))
		})
		requireEventually(t, "queued", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == i+1 })
	}
	assert.Equal(t, 1, s.Count(nlm4.ProcLock))
	require.NoError(t, c.Unlock(t.Context(), []byte("f"), Owner{ID: 1}, rangeAt(0, 0)))
	all.Wait()
	assert.True(t, slices.IsSorted(order))
	assert.Len(t, order, waiters)
	assert.Equal(t, waiters+1, s.Count(nlm4.ProcLock))
	assert.Empty(t, s.Held("f"))
}

// TestInterrupted interrupts waits in each state, and checks that the server
// then has what the owner had before (RNLM-CANCEL-2).
func TestInterrupted(t *testing.T) {
	why := errors.New("a signal")
	t.Run("behind a lock of this mount", func(t *testing.T) {
		s := nlm4test.New(t)
		c := newClient(t, s, nil)
		c.mustLock(t, newRequest(1, rangeAt(0, 9), true, true))
		ctx, end := context.WithCancelCause(t.Context())
		waits := c.lockLater(ctx, newRequest(2, rangeAt(0, 9), true, true))
		requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == 1 })
		end(why)
		assert.ErrorIs(t, <-waits, why)
		requireEventually(t, "gone", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == 0 })
		assert.Equal(t, 1, s.Count(nlm4.ProcLock))
	})
	t.Run("in the call", func(t *testing.T) {
		s := nlm4test.New(t)
		c := newClient(t, s, nil)
		c.mustLock(t, newRequest(1, rangeAt(2, 3), false, true))
		reached, answer := make(chan bool, 1), make(chan bool)
		s.SetBefore(func(x *oncrpc.Exchange) (error, bool) {
			if x.Proc == nlm4.ProcLock && len(reached) == 0 {
				reached <- true
				<-answer
			}
			return nil, false
		})
		ctx, end := context.WithCancelCause(t.Context())
		waits := c.lockLater(ctx, newRequest(1, rangeAt(0, 9), true, true))
		requireEventually(t, "called", func() bool { return len(reached) == 1 })
		end(why)
		assert.ErrorIs(t, <-waits, why)
		s.SetBefore(nil)
		close(answer)
		want := []nlm4test.Piece{{Range: rangeAt(2, 3), Kind: locks.Shared}}
		requireEventually(t, "given back", func() bool { return slices.Equal(want, s.Held("f")) && s.Count(nlm4.ProcLock) == 3 })
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
		assert.Empty(t, s.Held("f"))
	})
}

// TestUnlockRepeats loses UNLOCK calls and replies, and replies with grace
// period errors: the lock is released nevertheless (RNLM-GRACE-5).
func TestUnlockRepeats(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, true))
	var n atomic.Int32
	s.SetBefore(func(x *oncrpc.Exchange) (error, bool) {
		if x.Proc != nlm4.ProcUnlock {
			return nil, false
		}
		return map[int32]error{1: nlm4test.ErrLost, 2: nlm4test.ErrLost}[n.Add(1)], n.Load() == 2
	})
	require.NoError(t, c.Unlock(t.Context(), []byte("f"), Owner{ID: 1}, wholeFile))
	assert.EqualValues(t, 3, n.Load())
	assert.Empty(t, s.Held("f"))

	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, true))
	ctx, end := context.WithCancelCause(t.Context())
	s.SetGrace()
	done := make(chan error, 1)
	go func() { done <- c.Unlock(ctx, []byte("f"), Owner{ID: 1}, wholeFile) }()
	calls := s.Count(nlm4.ProcUnlock)
	requireEventually(t, "repeated", func() bool { return s.Count(nlm4.ProcUnlock) > calls+2 })
	end(errors.New("killed"))
	assert.Error(t, <-done)
	s.EndGrace()
	requireEventually(t, "unlocked without its caller", func() bool { return len(s.Held("f")) == 0 })
}

// TestGraceWaits checks that a new lock waits until a grace period is over,
// even if its caller does not wait for other locks (RNLM-GRACE-5).
func TestGraceWaits(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	s.SetGrace()
	done := c.lockLater(t.Context(), newRequest(1, wholeFile, true, false))
	requireEventually(t, "repeated", func() bool { return s.Count(nlm4.ProcLock) > 3 })
	s.EndGrace()
	require.NoError(t, <-done)
}

// TestDeadlock checks that two owners on the mount do not wait for each other,
// in one file or in two, but that flock locks may.
func TestDeadlock(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.mustLock(t, newRequest(1, rangeAt(0, 0), true, true))
	c.mustLock(t, newRequest(2, rangeAt(1, 1), true, true))
	c.mustLock(t, newRequest(3, rangeAt(2, 2), true, true))
	one := c.lockLater(t.Context(), newRequest(1, rangeAt(1, 1), true, true))
	requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == 1 })
	two := c.lockLater(t.Context(), newRequest(2, rangeAt(2, 2), false, true))
	requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == 2 })
	err := c.Lock(t.Context(), newRequest(3, rangeAt(0, 0), true, true))
	assert.ErrorIs(t, err, ErrDeadlock)
	assert.Equal(t, syscall.EDEADLK, Errno(err))
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 3}))
	require.NoError(t, <-two)
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 2}))
	require.NoError(t, <-one)

	flock := func(owner uint64, file string) *Request {
		r := newRequest(owner, wholeFile, true, true)
		r.Owner.Flock, r.Handle = true, []byte(file)
		return r
	}
	c.mustLock(t, flock(4, "g"))
	c.mustLock(t, flock(5, "h"))
	ctx, end := context.WithCancelCause(t.Context())
	four := c.lockLater(ctx, flock(4, "h"))
	requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["h"].queue) == 1 })
	five := c.lockLater(ctx, flock(5, "g"))
	requireEventually(t, "waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["g"].queue) == 1 })
	signal := errors.New("a signal")
	end(signal)
	assert.ErrorIs(t, <-four, signal)
	assert.ErrorIs(t, <-five, signal)
}

// TestNumbers checks that no two owners have one number at a time: the server would
// take them for one.
func TestNumbers(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	set := func(next int32) { c.mu.Lock(); defer c.mu.Unlock(); c.nextSVID = next }
	set(1<<31 - 1)
	for i := range uint64(3) {
		c.mustLock(t, newRequest(i+1, rangeAt(i, i), true, false))
	}
	set(1)
	c.mustLock(t, newRequest(4, rangeAt(4, 4), true, false))
	set(1<<31 - 1)
	c.mustLock(t, newRequest(5, rangeAt(5, 5), true, false))
	var numbers []int32
	for _, a := range s.Log() {
		numbers = append(numbers, a.Lock.SVID)
	}
	assert.Equal(t, []int32{1<<31 - 1, 1, 2, 3, 4}, numbers)
}

// TestModel sends random requests from several owners without waits, and
// compares the server's locks with the client's after each.
func TestModel(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		start := r.Uint64N(12)
		w := newRequest(1+r.Uint64N(4), rangeAt(start, start+r.Uint64N(6)), r.IntN(2) == 0, false)
		if r.IntN(3) == 0 {
			require.NoError(t, c.Unlock(t.Context(), w.Handle, w.Owner, w.Range))
		} else if err := c.Lock(t.Context(), w); err != nil {
			require.ErrorIs(t, err, ErrDenied)
		}
		var mine []nlm4test.Piece
		c.mu.Lock()
		if f := c.files["f"]; f != nil {
			f.object.Union(wholeFile, func(part locks.Range, exclusive bool) bool {
				mine = append(mine, nlm4test.Piece{Range: part, Kind: locks.KindOf(exclusive)})
				return true
			})
		}
		c.mu.Unlock()
		require.Equal(t, s.Held("f"), mine)
	}
}

// TestSchedules interrupts waits at random moments, 10,000 times: then either
// the owner has the lock, or the server has no part of it (RNLM-CANCEL-2).
func TestSchedules(t *testing.T) {
	s := nlm4test.New(t)
	bind := newFakeBind(t, false)
	c := newClient(t, s, func(cfg *Config) {
		cfg.NoCallback, cfg.RPCBind, cfg.times.firstRetry = false, bind.Host, 20*time.Microsecond
	})
	require.True(t, c.CallsBack())
	var free func()
	for i := range 10_000 {
		if free == nil {
			free = s.Take("f", rangeAt(0, 0), true)
		}
		ctx, end := context.WithCancel(t.Context())
		done := c.lockLater(ctx, newRequest(1, rangeAt(0, 0), true, true))
		if i%2 == 0 {
			go end()
		}
		go free()
		free = nil
		if i%2 == 1 {
			for range i % 64 {
				s.Conn() // some time
			}
			end()
		}
		if <-done == nil {
			require.Len(t, s.Held("f"), 1)
			require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
		}
		end()
		requireEventually(t, "settled", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files) == 0 })
		requireEventually(t, "nothing is left", func() bool { return len(s.Held("f")) == 0 && s.Waiting() == 0 })
	}
}

// TestNotFound checks the error if no lock manager replies.
func TestNotFound(t *testing.T) {
	s := nlm4test.New(t)
	s.SetBefore(func(*oncrpc.Exchange) (error, bool) {
		return &oncrpc.ReplyError{Stat: rpcmsg.ProgUnavail}, false
	})
	refuse := errors.New("refused")
	_, err := New(t.Context(), Config{
		Server: Server{NFS: s, Conn: s.Conn, Hosts: []string{"srv"}, Dial: func(_ context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
			return nil, nil, fmt.Errorf("%s: %w", addr, refuse)
		}},
		Log: discard,
	})
	require.ErrorIs(t, err, refuse)
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
	assert.True(t, strings.Contains(err.Error(), "rpcbind at srv:111"), err)
}

// TestOrderYields checks that an owner with locks does not wait for a request
// that waits for that owner, directly or through another: programs could not
// see the reason. The owner gets a lock if no other lock conflicts.
func TestOrderYields(t *testing.T) {
	queued := func(t *testing.T, c *Client, n int) {
		requireEventually(t, "queued", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.files["f"].queue) == n })
	}
	t.Run("a shared lock becomes exclusive", func(t *testing.T) {
		c := newClient(t, nlm4test.New(t), nil)
		c.mustLock(t, newRequest(1, rangeAt(0, 9), false, true))
		writer := c.lockLater(t.Context(), newRequest(2, rangeAt(0, 9), true, true))
		queued(t, c, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.NoError(t, c.Lock(ctx, newRequest(1, rangeAt(0, 9), true, true)))
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
		require.NoError(t, <-writer)
	})
	t.Run("through another owner", func(t *testing.T) {
		c := newClient(t, nlm4test.New(t), nil)
		c.mustLock(t, newRequest(1, rangeAt(0, 9), false, true))
		c.mustLock(t, newRequest(2, rangeAt(20, 20), true, true))
		writer := c.lockLater(t.Context(), newRequest(3, rangeAt(0, 9), true, true))
		queued(t, c, 1)
		one := c.lockLater(t.Context(), newRequest(1, rangeAt(20, 20), true, true))
		queued(t, c, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.NoError(t, c.Lock(ctx, newRequest(2, rangeAt(0, 9), false, true)))
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 2}))
		require.NoError(t, <-one)
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
		require.NoError(t, <-writer)
	})
	t.Run("by a lock of another file", func(t *testing.T) {
		c := newClient(t, nlm4test.New(t), nil)
		c.mustLock(t, newRequest(1, rangeAt(0, 9), false, true))
		writer := c.lockLater(t.Context(), newRequest(2, rangeAt(0, 9), true, true))
		queued(t, c, 1)
		three := c.lockLater(t.Context(), newRequest(3, rangeAt(0, 9), false, true))
		queued(t, c, 2)
		assert.Empty(t, three)
		g := newRequest(3, rangeAt(0, 0), true, true)
		g.Handle = []byte("g")
		c.mustLock(t, g)
		requireEventually(t, "granted", func() bool { return len(three) == 1 })
		require.NoError(t, <-three)
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
		assert.Empty(t, writer)
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 3}))
		require.NoError(t, <-writer)
	})
}

// TestOneOwnerAtOnce has a process's threads lock and unlock parts of a file,
// as two users; the race detector checks what they share.
func TestOneOwnerAtOnce(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, func(cfg *Config) { cfg.File = filepath.Join(t.TempDir(), "locks") })
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() {
			for range 200 {
				w := newRequest(1, rangeAt(10*i, 10*i+5), i%2 == 0, true)
				w.Cred.UID, w.Cred.GIDs = uint32(i), []uint32{uint32(i)}
				c.mustLock(t, w)
				require.NoError(t, c.Unlock(t.Context(), w.Handle, w.Owner, w.Range))
			}
		})
	}
	all.Wait()
	assert.Empty(t, s.Held("f"))
}
