package nlmclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// patient are waitTimes within which no request polls.
var patient = waitTimes{firstRetry: time.Hour, lastRetry: time.Hour, lastUncalled: time.Hour, gracePause: time.Millisecond, probeInterval: time.Hour, closeLimit: 10 * time.Second}

// newCallbackClient returns a client to which the server can call back, and from the
// server's address.
func newCallbackClient(t *testing.T, s *nlm4test.Server, how waitTimes) (*Client, *fakeBind, oncrpc.Caller) {
	bind := newFakeBind(t, false)
	c := newClient(t, s, func(cfg *Config) { cfg.NoCallback, cfg.RPCBind, cfg.times = false, bind.Host, how })
	require.True(t, c.CallsBack())
	return c, bind, bind.newCaller(t, "127.0.0.1")
}

// TestGranted checks that a waiter has the lock when the server calls GRANTED or
// GRANTED_MSG, whose cookie is the server's own (RNLM-GRANTED-2, RNLM-LINUX-5).
func TestGranted(t *testing.T) {
	for _, proc := range []uint32{nlm4.ProcGranted, nlm4.ProcGrantedMsg} {
		t.Run(nlm4.ProcName(proc), func(t *testing.T) {
			s := nlm4test.New(t)
			c, _, back := newCallbackClient(t, s, patient)
			s.OnGiven(func(a nlm4.LockArgs) {
				status, err := sendGranted(t, back, proc, grantedArgs(&a))
				assert.NoError(t, err)
				assert.Equal(t, nlm4.Granted, status)
			})
			free := s.Take("f", rangeAt(0, 9), true)
			waits := c.lockLater(t.Context(), newRequest(1, rangeAt(5, locks.ToEnd), true, true))
			requireEventually(t, "waits", func() bool { return s.Waiting() == 1 })
			assert.True(t, s.Log()[0].Block)
			free()
			require.NoError(t, <-waits)
			s.Wait()
			assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(5, locks.ToEnd), Kind: locks.Exclusive}}, s.Held("f"))
			if proc == nlm4.ProcGrantedMsg {
				requireEventually(t, "GRANTED_RES", func() bool { return s.Count(nlm4.ProcGrantedRes) == 1 })
			}
		})
	}
}

// TestFalseGrants sends GRANTED calls that grant nothing: for another owner's
// lock, for a lock that the server has not granted, twice, and after the wait
// has ended (RNLM-GRANTED-6, RNLM-GRANTED-7).
func TestFalseGrants(t *testing.T) {
	s := nlm4test.New(t)
	c, _, back := newCallbackClient(t, s, patient)
	grant := func(change func(*nlm4.TestArgs)) nlm4.Status {
		a := grantedArgs(&s.Log()[0])
		change(a)
		status, err := sendGranted(t, back, nlm4.ProcGranted, a)
		require.NoError(t, err)
		return status
	}
	same := func(*nlm4.TestArgs) {}
	free := s.Take("f", rangeAt(0, 9), true)
	ctx, end := context.WithCancelCause(t.Context())
	waits := c.lockLater(ctx, newRequest(1, rangeAt(0, 9), true, true))
	requireEventually(t, "waits", func() bool { return s.Waiting() == 1 })
	for name, change := range map[string]func(*nlm4.TestArgs){
		"file":   func(a *nlm4.TestArgs) { a.Lock.Handle = []byte("g") },
		"svid":   func(a *nlm4.TestArgs) { a.Lock.SVID++ },
		"offset": func(a *nlm4.TestArgs) { a.Lock.Offset++ },
		"length": func(a *nlm4.TestArgs) { a.Lock.Length = 0 },
		"kind":   func(a *nlm4.TestArgs) { a.Exclusive = false },
	} {
		assert.Equal(t, nlm4.Denied, grant(change), name)
	}
	calls := s.Count(nlm4.ProcLock)
	assert.Equal(t, nlm4.Granted, grant(same), "a waiter of that lock exists")
	requireEventually(t, "asks the server", func() bool { return s.Count(nlm4.ProcLock) == calls+1 })
	assert.Empty(t, waits, "the server has not given the lock")

	free()
	assert.Equal(t, nlm4.Granted, grant(same))
	require.NoError(t, <-waits)
	assert.Equal(t, nlm4.Granted, grant(same), "the server repeats itself: the lock is held")
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
	assert.Equal(t, nlm4.Denied, grant(same), "not any more")

	s.Take("f", rangeAt(0, 9), true)
	waits = c.lockLater(ctx, newRequest(1, rangeAt(0, 9), true, true))
	requireEventually(t, "waits", func() bool { return s.Waiting() == 1 })
	end(errors.New("a signal"))
	assert.Error(t, <-waits)
	requireEventually(t, "cancelled", func() bool { return s.Waiting() == 0 })
	assert.Equal(t, nlm4.Denied, grant(same), "nobody waits any more")
}

// TestStrangers calls from an address that is not the server's, and calls
// unsupported procedures (RNLM-GRANTED-7, RNLM-ASYNC-3).
func TestStrangers(t *testing.T) {
	s := nlm4test.New(t)
	c, bind, back := newCallbackClient(t, s, patient)
	s.Take("f", rangeAt(0, 9), true)
	ctx, end := context.WithCancel(t.Context())
	waits := c.lockLater(ctx, newRequest(1, rangeAt(0, 9), true, true))
	requireEventually(t, "waits", func() bool { return s.Waiting() == 1 })
	_, err := sendGranted(t, bind.newCaller(t, "127.0.0.2"), nlm4.ProcGranted, grantedArgs(&s.Log()[0]))
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
	for proc := range nlm4.NumProc + 1 {
		x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Proc: proc, MaxResults: 4096}
		err := back.Call(t.Context(), &x)
		switch proc {
		case nlm4.ProcNull:
			assert.NoError(t, err)
			x.Release()
		case nlm4.ProcGranted, nlm4.ProcGrantedMsg:
			assert.ErrorIs(t, err, oncrpc.ErrGarbageArgs)
		default:
			assert.ErrorIs(t, err, oncrpc.ErrProcUnavail, nlm4.ProcName(proc))
		}
	}
	assert.Equal(t, 1, s.Count(nlm4.ProcLock), "no call has waked the waiter")
	end()
	assert.Error(t, <-waits)
}

// TestTaken checks that a Client polls if another lock manager is registered on
// its host, and leaves that registration alone.
func TestTaken(t *testing.T) {
	s := nlm4test.New(t)
	bind := newFakeBind(t, true)
	before := bind.registeredPort(t)
	c := newClient(t, s, func(cfg *Config) { cfg.NoCallback, cfg.RPCBind = false, bind.Host })
	assert.False(t, c.CallsBack())
	c.Close()
	assert.Equal(t, before, bind.registeredPort(t))
}

// TestUnregisters checks that Close removes the registration.
func TestUnregisters(t *testing.T) {
	s := nlm4test.New(t)
	c, bind, _ := newCallbackClient(t, s, quick)
	assert.Len(t, bind.list, 2, "for IPv4 and IPv6")
	c.Close()
	assert.Empty(t, bind.list)
}

// TestManyGranted has 1,000 owners on this mount and on another wait for one
// byte, with callbacks that arrive twice, at the wrong mount, or not at all.
func TestManyGranted(t *testing.T) {
	s := nlm4test.New(t)
	var clients []*Client
	var backs []oncrpc.Caller
	for range 2 {
		c, _, back := newCallbackClient(t, s, quick)
		clients, backs = append(clients, c), append(backs, back)
	}
	var n atomic.Int32
	s.OnGiven(func(a nlm4.LockArgs) {
		for range n.Add(1) % 3 {
			_, _ = sendGranted(t, backs[n.Load()%2], nlm4.ProcGranted, grantedArgs(&a))
		}
	})
	var inside, got atomic.Int32
	var all sync.WaitGroup
	for i := range 1000 {
		c := clients[i%2]
		w := newRequest(uint64(i+1), rangeAt(0, 0), true, true)
		all.Go(func() {
			if !assert.NoError(t, c.Lock(t.Context(), w)) {
				return
			}
			assert.EqualValues(t, 1, inside.Add(1), "one at a time")
			got.Add(1)
			inside.Add(-1)
			assert.NoError(t, c.Unlock(t.Context(), w.Handle, w.Owner, w.Range))
		})
	}
	all.Wait()
	s.Wait()
	assert.EqualValues(t, 1000, got.Load())
	assert.Empty(t, s.Held("f"))
}
