package rdmatest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A recordingUser records the events at its end of a connection.
type recordingUser struct {
	mu     sync.Mutex
	got    []string
	recvs  []rdma.Recv // their buffers have been released
	done   []rdma.Completion
	closed []error
}

func (u *recordingUser) Receive(r rdma.Recv) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Buf != nil {
		u.got = append(u.got, string(r.Buf.B))
		r.Buf.Release()
		r.Buf = nil
	}
	u.recvs = append(u.recvs, r)
}

func (u *recordingUser) Complete(c rdma.Completion) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = append(u.done, c)
}

func (u *recordingUser) Closed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = append(u.closed, err)
}

func (u *recordingUser) completionIDs() (ids []uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.done {
		ids = append(ids, c.ID)
	}
	return ids
}

func sendWR(text string) rdma.WR { return rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte(text)}} }

// inBubble runs f with a connection, and checks that no resources leak.
func inBubble(t *testing.T, cfg rdma.ConnConfig, f func(t *testing.T, a, b *Conn, ua, ub *recordingUser)) {
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		ua, ub := new(recordingUser), new(recordingUser)
		ca, cb := rdma.ConnConfig{Handler: ua, Recvs: 8}, cfg
		cb.Handler = ub
		a, b := Pair(t, ca, cb)
		f(t, a, b, ua, ub)
		breakPair(a, b)
		assert.Len(t, ua.closed, 1)
		assert.Len(t, ub.closed, 1)
		assert.Equal(t, before, buf.Default.Out())
	})
}

func TestSendWriteRead(t *testing.T) {
	inBubble(t, rdma.ConnConfig{Recvs: 2, PrivateData: []byte("hello")}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
		assert.Equal(t, "hello", string(a.PrivateData()))
		assert.Equal(t, a.LocalAddr(), b.RemoteAddr())
		mem := []byte("0123456789")
		reg, err := b.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
		require.NoError(t, err)
		into := make([]byte, 4)
		at := func(n uint64) rdma.Remote { return rdma.Remote{STag: reg.STag(), TO: reg.TO() + n} }
		require.NoError(t, a.Post(
			rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("a"), nil, []byte("bc")}, Remote: at(2), Done: ua, ID: 1},
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{into}, Remote: at(1), Done: ua, ID: 2},
			rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("x"), []byte("yz")}, Done: ua, ID: 3},
			rdma.WR{
				Op: rdma.OpSend, Invalidate: reg.STag(), WithInvalidate: true, Solicited: true,
				Fence: true, Done: ua, ID: 4,
			},
		))
		synctest.Wait()
		assert.Equal(t, "01abc56789", string(mem))
		assert.Equal(t, "1abc", string(into))
		assert.Equal(t, []uint64{1, 2, 3, 4}, ua.completionIDs(), "in the order of posting")
		assert.Equal(t, []string{"xyz", ""}, ub.got)
		assert.Equal(t, rdma.Recv{Invalidated: reg.STag(), WithInvalidate: true, Solicited: true}, ub.recvs[1])
		reg.Deregister()

		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: at(0), Done: ua, ID: 5}))
		synctest.Wait()
		assert.ErrorIs(t, ub.closed[0], ErrAccess, "invalidated")
	})
}

func TestCompletionsWaitForReads(t *testing.T) {
	inBubble(t, rdma.ConnConfig{Recvs: 1}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
		reg, err := b.Register(make([]byte, 1), rdma.RemoteRead)
		require.NoError(t, err)
		b.Delay(time.Second)
		require.NoError(t, a.Post(
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{{0}}, Remote: rdma.Remote{STag: reg.STag(), TO: reg.TO()}, Done: ua, ID: 1},
			rdma.WR{Op: rdma.OpSend, Done: ua, ID: 2},
		))
		synctest.Wait()
		assert.Len(t, ub.got, 1, "the Send does not wait")
		assert.Empty(t, ua.completionIDs(), "its completion does")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []uint64{1, 2}, ua.completionIDs())
	})
}

func TestViolations(t *testing.T) {
	for name, tt := range map[string]struct {
		wr   func(read, write rdma.Region) rdma.WR
		want error
	}{
		"no receive left":   {func(_, _ rdma.Region) rdma.WR { return sendWR("second") }, ErrNoRecv},
		"message too long":  {func(_, _ rdma.Region) rdma.WR { return sendWR("123456789") }, ErrTooLong},
		"unknown STag":      {func(_, _ rdma.Region) rdma.WR { return writeWR(rdma.Remote{STag: 1}, 1) }, ErrAccess},
		"no right to write": {func(r, _ rdma.Region) rdma.WR { return writeWR(remoteAt(r, 0), 1) }, ErrAccess},
		"no right to read":  {func(_, w rdma.Region) rdma.WR { return readWR(remoteAt(w, 0), 1) }, ErrAccess},
		"past the end":      {func(_, w rdma.Region) rdma.WR { return writeWR(remoteAt(w, 7), 2) }, ErrAccess},
		"far past the end":  {func(_, w rdma.Region) rdma.WR { return writeWR(remoteAt(w, 1<<40), 2) }, ErrAccess},
		"before the start":  {func(r, _ rdma.Region) rdma.WR { return readWR(rdma.Remote{STag: r.STag()}, 1) }, ErrAccess},
		"invalidate unknown": {func(_, _ rdma.Region) rdma.WR {
			return rdma.WR{Op: rdma.OpSend, WithInvalidate: true, Invalidate: 1}
		}, ErrAccess},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, rdma.ConnConfig{Recvs: 1, RecvSize: 8}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
				r, err := b.Register(make([]byte, 8), rdma.RemoteRead)
				require.NoError(t, err)
				w, err := b.Register(make([]byte, 8), rdma.RemoteWrite)
				require.NoError(t, err)
				if errors.Is(tt.want, ErrNoRecv) {
					require.NoError(t, a.Post(sendWR("first")))
				}
				require.NoError(t, a.Post(tt.wr(r, w)))
				synctest.Wait()
				require.Len(t, ub.closed, 1)
				assert.ErrorIs(t, ub.closed[0], tt.want)
				require.Len(t, ua.closed, 1)
				assert.ErrorIs(t, ua.closed[0], tt.want)
				assert.ErrorIs(t, a.Post(sendWR("")), rdma.ErrClosed)
			})
		})
	}
}

func remoteAt(r rdma.Region, n uint64) rdma.Remote {
	return rdma.Remote{STag: r.STag(), TO: r.TO() + n}
}

func writeWR(at rdma.Remote, n int) rdma.WR {
	return rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, n)}, Remote: at}
}

func readWR(at rdma.Remote, n int) rdma.WR {
	return rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, n)}, Remote: at}
}

// A blockingUser is a user that blocks its reader at the first message.
type blockingUser struct {
	recordingUser
	first, free chan struct{}
}

func (k *blockingUser) Receive(r rdma.Recv) {
	k.recordingUser.Receive(r)
	select {
	case k.first <- struct{}{}:
		<-k.free
	default:
	}
}

func TestRelieve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &blockingUser{first: make(chan struct{}, 1), free: make(chan struct{})}
		a, b := Pair(t, rdma.ConnConfig{Handler: new(recordingUser)}, rdma.ConnConfig{Handler: k, Recvs: 3})
		require.NoError(t, a.Post(sendWR("1"), sendWR("2")))
		synctest.Wait()
		assert.Equal(t, []string{"1"}, k.got)
		b.HandOffReader()
		synctest.Wait()
		assert.Equal(t, []string{"1", "2"}, k.got)
		breakPair(a, b)
		assert.Len(t, k.closed, 1)
		close(k.free)
	})
}

// A blockingCompleter is a Completer that blocks its reader.
type blockingCompleter struct {
	completion rdma.Completion
	unblock    chan struct{}
}

func (s *blockingCompleter) Complete(rdma.Completion) { panic("not by the reader") }

func (s *blockingCompleter) CompleteInline(c rdma.Completion) {
	s.completion = c
	<-s.unblock
}

func (s *blockingCompleter) release() {
	synctest.Wait()
	s.unblock <- struct{}{}
	synctest.Wait()
}

// An anyBlockingCompleter is a blockingCompleter that blocks any goroutine that
// delivers the completion.
type anyBlockingCompleter struct{ blockingCompleter }

func (l *anyBlockingCompleter) Complete(c rdma.Completion) { l.CompleteInline(c) }

func TestRelieveCompletion(t *testing.T) {
	inBubble(t, rdma.ConnConfig{}, func(t *testing.T, a, b *Conn, ua, _ *recordingUser) {
		s := &blockingCompleter{unblock: make(chan struct{})}
		second := &anyBlockingCompleter{blockingCompleter{unblock: make(chan struct{})}}
		require.NoError(t, a.Post(
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: s, ID: 1},
			rdma.WR{Op: rdma.OpWrite, Done: second, ID: 2},
			rdma.WR{Op: rdma.OpWrite, Done: ua, ID: 3},
		))
		synctest.Wait()
		assert.Equal(t, rdma.Completion{ID: 1, Op: rdma.OpRead}, s.completion)
		assert.Zero(t, second.completion)
		a.HandOffReader()
		synctest.Wait()
		assert.EqualValues(t, 2, second.completion.ID)
		s.release()
		assert.Empty(t, ua.completionIDs(), "the second has no notice")
		second.release()
		assert.Equal(t, []uint64{3}, ua.completionIDs())
	})
}

func TestFlush(t *testing.T) {
	inBubble(t, rdma.ConnConfig{}, func(t *testing.T, a, b *Conn, ua, _ *recordingUser) {
		defer b.Pause()()
		for range 40 {
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Done: ua}))
		}
		synctest.Wait()
		a.Abort(errors.New("enough"))
		synctest.Wait()
		require.Len(t, ua.done, 40, "each completes, sent or not")
		assert.NoError(t, ua.done[0].Err)
		assert.ErrorIs(t, ua.done[39].Err, rdma.ErrFlushed)
	})
}

func TestCloseSendsWhatIsPosted(t *testing.T) {
	inBubble(t, rdma.ConnConfig{Recvs: 100}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
		for range 50 {
			require.NoError(t, a.Post(sendWR("x")))
		}
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		synctest.Wait()
		assert.Len(t, ub.got, 50)
		assert.ErrorIs(t, ub.closed[0], io.EOF)
		assert.ErrorIs(t, a.Post(sendWR("late")), rdma.ErrClosed)
	})
}

func TestCloseOfDeafPeer(t *testing.T) {
	inBubble(t, rdma.ConnConfig{}, func(t *testing.T, a, b *Conn, _, _ *recordingUser) {
		b.Pause()
		start := time.Now()
		require.NoError(t, a.Close())
		assert.Equal(t, closeTimeout, time.Since(start))
	})
}

func TestCutAfter(t *testing.T) {
	inBubble(t, rdma.ConnConfig{Recvs: 10}, func(t *testing.T, a, _ *Conn, ua, ub *recordingUser) {
		a.CutAfter(2)
		require.NoError(t, a.Post(sendWR("1"), sendWR("2"), sendWR("3")))
		synctest.Wait()
		require.Len(t, ua.closed, 1)
		assert.ErrorIs(t, ua.closed[0], ErrCut)
		assert.LessOrEqual(t, len(ub.got), 2)
	})
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen(t)
		go func() {
			r, err := l.Accept(t.Context())
			if assert.NoError(t, err) {
				assert.Equal(t, "dial", string(r.PrivateData()))
				_, err = r.Accept(rdma.ConnConfig{Handler: new(recordingUser), PrivateData: []byte("accept")})
				assert.NoError(t, err)
			}
			if r, err = l.Accept(t.Context()); assert.NoError(t, err) {
				assert.NoError(t, r.Reject(nil))
			}
			assert.NoError(t, l.Close())
		}()
		cfg := rdma.ConnConfig{Handler: new(recordingUser), PrivateData: []byte("dial")}
		c, err := l.Dial(t.Context(), cfg)
		require.NoError(t, err)
		assert.Equal(t, "accept", string(c.PrivateData()))
		_, err = l.Dial(t.Context(), cfg)
		require.ErrorIs(t, err, ErrRejected)
		synctest.Wait()
		_, err = l.Dial(t.Context(), cfg)
		require.ErrorIs(t, err, rdma.ErrClosed)
		_, err = l.Accept(context.Background())
		require.ErrorIs(t, err, rdma.ErrClosed)
	})
}

// TestRegionPlaced checks that a region knows which bytes were written, in any
// order and pieces.
func TestRegionPlaced(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const size = 20
		var s regionSet
		r, err := s.addRegion(make([]byte, size), rdma.RemoteWrite|rdma.RemoteRead, s.nextAddress())
		require.NoError(t, err)
		var written [size]bool
		for range 8 {
			from := rng.IntN(size)
			to := from + 1 + rng.IntN(min(7, size-from))
			at := r.at
			at.TO += uint64(from)
			require.NoError(t, s.withMemory(at, to-from, rdma.RemoteRead, func([]byte) {}))
			require.NoError(t, s.withMemory(at, to-from, rdma.RemoteWrite, func([]byte) {}))
			for i := from; i < to; i++ {
				written[i] = true
			}
			for n := range size + 1 {
				require.Equal(t, !slices.Contains(written[:n], false), r.Placed(n), n)
			}
		}
	}
}
