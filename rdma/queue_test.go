package rdma

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

func TestCompletionQueue(t *testing.T) {
	q := NewCompletionQueue(3)
	for id := range uint64(3) {
		q.Complete(Completion{ID: id})
	}
	first, err := q.Wait(t.Context())
	require.NoError(t, err)
	assert.Zero(t, first.ID)
	q.Complete(Completion{ID: 3})
	var got [8]Completion
	n, err := q.Poll(got[:2])
	require.NoError(t, err)
	assert.Equal(t, []Completion{{ID: 1}, {ID: 2}}, got[:n])
	n, err = q.Poll(got[:])
	require.NoError(t, err)
	assert.Equal(t, []Completion{{ID: 3}}, got[:n])
	n, err = q.Poll(got[:])
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestCompletionQueueOverrun(t *testing.T) {
	q := NewCompletionQueue(0) // capacity 1
	for id := range uint64(4) {
		q.Complete(Completion{ID: id})
	}
	n, err := q.Poll(nil)
	require.NoError(t, err)
	assert.Zero(t, n)
	c, err := q.Wait(t.Context())
	require.NoError(t, err)
	assert.Zero(t, c.ID)
	for range 2 {
		_, err = q.Wait(t.Context())
		require.ErrorIs(t, err, ErrOverrun)
		_, err = q.Poll(make([]Completion, 1))
		require.ErrorIs(t, err, ErrOverrun)
	}
}

// TestWaiters checks that several waiters all return, some because their
// context ends.
func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewCompletionQueue(10)
		var mu sync.Mutex
		got := map[uint64]int{}
		for range 5 {
			go func() {
				c, err := q.Wait(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				got[c.ID]++
			}()
		}
		synctest.Wait()
		for id := range uint64(5) { // all before any waiter runs
			q.Complete(Completion{ID: id})
		}
		synctest.Wait()
		assert.Equal(t, map[uint64]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, got)

		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.Wait(ctx)
			gone <- err
		}()
		synctest.Wait()
		cancel(enough)
		assert.ErrorIs(t, <-gone, enough)
	})
}

func TestCompletionQueueAllocs(t *testing.T) {
	q, into := NewCompletionQueue(100), make([]Completion, 100)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for range 90 {
			q.Complete(Completion{})
		}
		_, _ = q.Poll(into[:50])
		_, _ = q.Wait(t.Context())
		_, _ = q.Poll(into)
	}))
}

func newMessage(text string) Recv {
	b := buf.Default.Get(len(text))
	copy(b.B, text)
	return Recv{Buf: b}
}

func TestReceiveQueue(t *testing.T) {
	out := buf.Default.Out()
	q := NewReceiveQueue()
	for _, text := range []string{"a", "b", "c"} {
		q.Receive(newMessage(text))
	}
	q.Receive(Recv{Immediate: [8]byte{1}, WithImmediate: true})
	q.Closed(io.ErrUnexpectedEOF)
	m, err := q.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "a", string(m.Buf.B))
	m.Buf.Release()
	var got [4]Recv
	n, err := q.Poll(got[:])
	require.NoError(t, err)
	require.Equal(t, 3, n)
	assert.Equal(t, "b", string(got[0].Buf.B))
	assert.Equal(t, "c", string(got[1].Buf.B))
	assert.Equal(t, Recv{Immediate: [8]byte{1}, WithImmediate: true}, got[2])
	got[0].Buf.Release()
	got[1].Buf.Release()
	for range 2 {
		_, err = q.Poll(got[:])
		require.ErrorIs(t, err, ErrClosed)
		_, err = q.Wait(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, q.WaitSolicited(t.Context()), ErrClosed)
	}
	assert.Equal(t, out, buf.Default.Out())

	q = NewReceiveQueue()
	q.Closed(nil)
	_, err = q.Wait(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

// TestWaitSolicited checks that only a solicited event or the end wakes a
// waiter (R5040-5.3-6, R7306-6.1-2).
func TestWaitSolicited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, woken := NewReceiveQueue(), make(chan error, 1)
		wait := func() { woken <- q.WaitSolicited(t.Context()) }
		for _, event := range []Recv{{Solicited: true}, {Solicited: true, WithImmediate: true}} {
			go wait()
			q.Receive(Recv{})
			q.Receive(Recv{WithImmediate: true})
			synctest.Wait()
			assert.Empty(t, woken)
			q.Receive(event)
			require.NoError(t, <-woken)
			wait() // at once: the event is still queued
			require.NoError(t, <-woken)
			n, err := q.Poll(make([]Recv, 9))
			require.NoError(t, err)
			assert.Equal(t, 3, n)
		}
		go wait()
		go wait()
		synctest.Wait()
		assert.Empty(t, woken, "it was taken")
		q.Receive(Recv{})
		q.Closed(io.EOF)
		require.ErrorIs(t, <-woken, io.EOF)
		require.ErrorIs(t, <-woken, io.EOF)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, NewReceiveQueue().WaitSolicited(ctx), context.Canceled)
	})
}
