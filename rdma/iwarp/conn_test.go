package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// patternSource holds the random bytes from which patternBytes copies.
var patternSource = func() []byte {
	b := make([]byte, 5<<20)
	r := rand.NewPCG(5, 7)
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}()

// patternBytes returns n bytes that differ between positions, and for different n.
func patternBytes(n int) []byte { return bytes.Clone(patternSource[n%4096:][:n]) }

// sizes are message sizes on both sides of every boundary: words, segments, FPDUs, batches.
var sizes = []int{0, 1, 2, 3, 4, 5, 13, 127, 1024, 4095, 4096, 4097, 64742, 65467, 65468, 65469, 65535, 65536, 1<<20 + 3, 3<<20 + 1}

func TestSend(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			o.recvSize = 4 << 20
			a, b := connectPair(t, o)
			sendFirst(t, a, b)
			for _, n := range sizes { // R5040-5.3-10: 0 too
				want := patternBytes(n)
				require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want[:n/3], nil, want[n/3:]}}))
				require.Equal(t, want, b.inbox.nextMessage(t), "%d bytes", n)
				require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}, Solicited: true}))
				m := a.inbox.nextRecv(t)
				require.Equal(t, want, append([]byte{}, m.Buf.B...), "%d bytes", n)
				assert.True(t, m.Solicited)
				m.Buf.Release()
			}
		})
	}
}

func TestWriteThenSend(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			for _, n := range sizes {
				want, sink := patternBytes(n), make([]byte, n+2)
				r, err := b.Register(sink, rdma.RemoteWrite)
				require.NoError(t, err)
				done := make(completionWaiter, 1)
				require.NoError(t, a.Post(
					rdma.WR{Op: rdma.OpWrite, Data: [][]byte{want[:n/2], want[n/2:]}, Remote: rdma.Remote{STag: r.STag(), TO: r.TO() + 1}},
					rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}, Done: done, ID: 5},
				))
				require.Equal(t, []byte{1}, b.inbox.nextMessage(t))
				// R5040-5.5-10-2: the Write is visible when the Send is delivered.
				require.Equal(t, want, sink[1:n+1])
				require.Zero(t, sink[0])
				require.Zero(t, sink[n+1])
				require.Equal(t, rdma.Completion{ID: 5, Op: rdma.OpSend}, done.wait(t))
				r.Deregister()
			}
		})
	}
}

func TestRead(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			for _, n := range sizes {
				want, sink := patternBytes(n), make([]byte, n)
				r, err := b.Register(want, rdma.RemoteRead)
				require.NoError(t, err)
				done := make(completionWaiter, 1)
				require.NoError(t, a.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Remote: rdma.Remote{STag: r.STag()}, Done: done}))
				require.NoError(t, done.wait(t).Err)
				require.Equal(t, want, sink, "%d bytes", n)
				r.Deregister()
			}
		})
	}
}

// TestReadDepth checks that Reads beyond ORD wait, and that all completions
// come in posting order (R5040-5.5-15-1).
func TestReadDepth(t *testing.T) {
	for _, depth := range []uint16{1, 2, 7} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, pairOptions{initiator: Config{ORD: depth}, responder: Config{IRD: 16}})
			assert.Equal(t, int(depth), a.Params().ORD)
			assert.Equal(t, int(depth), b.Params().IRD)
			want := patternBytes(100 << 10)
			r, err := b.Register(want, rdma.RemoteRead)
			require.NoError(t, err)
			const n = 100
			done, sinks := make(completionWaiter, 2*n), make([][]byte, n)
			for i := range n {
				sinks[i] = make([]byte, 1+i*1000)
				require.NoError(t, a.Post(
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{sinks[i]}, Remote: rdma.Remote{STag: r.STag(), TO: uint64(i)}, Done: done, ID: uint64(2 * i)},
					rdma.WR{Op: rdma.OpSend, Data: [][]byte{{byte(i)}}, Done: done, ID: uint64(2*i + 1)},
				))
				require.NoError(t, b.PostRecv(1))
			}
			for i := range 2 * n {
				c := done.wait(t)
				require.NoError(t, c.Err)
				require.Equal(t, uint64(i), c.ID)
			}
			for i, s := range sinks {
				require.Equal(t, want[i:][:len(s)], s)
			}
		})
	}
}

func TestSendWithInvalidate(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	mem := make([]byte, 16)
	r, err := b.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	at := rdma.Remote{STag: r.STag()}
	require.NoError(t, a.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("hello")}, Remote: at},
		rdma.WR{Op: rdma.OpSend, WithInvalidate: true, Invalidate: r.STag()},
	))
	m := b.inbox.nextRecv(t)
	m.Buf.Release()
	assert.True(t, m.WithInvalidate)
	assert.Equal(t, r.STag(), m.Invalidated)
	assert.Equal(t, "hello", string(mem[:5]))
	// R5040-5.3-14: the STag is invalid now.
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: at}))
	requireFault(t, a.inbox.closeError(t), true, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0})
	requireFault(t, b.inbox.closeError(t), false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0})
	r.Deregister()
}

func requireFault(t testing.TB, err error, remote bool, cause rdmap.Error) {
	t.Helper()
	var f *Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, remote, f.Remote, "%v", err)
	require.Equal(t, cause, f.Terminate.Cause, "%v", err)
}

func TestClose(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{recvSize: 1 << 20})
	done := make(completionWaiter, 1)
	want := patternBytes(1 << 20)
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}, Done: done}))
	require.NoError(t, a.Close()) // R5041-6.2.1-1: posted requests are sent first
	assert.NoError(t, done.wait(t).Err)
	assert.Equal(t, want, b.inbox.nextMessage(t))
	assert.ErrorIs(t, a.inbox.closeError(t), io.EOF)
	assert.ErrorIs(t, b.inbox.closeError(t), io.EOF)
	assert.ErrorIs(t, a.Post(rdma.WR{}), rdma.ErrClosed) // R5041-6.2.1-2
	_, err := a.Register(want, rdma.RemoteRead)
	assert.ErrorIs(t, err, rdma.ErrClosed)
	require.NoError(t, a.Close())
}

func TestAbortFlushes(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	done := make(completionWaiter, 3)
	// The responder may not send yet: its work requests wait.
	for i := range 3 {
		require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Done: done, ID: uint64(i)}))
	}
	cause := errors.New("enough")
	b.Abort(cause)
	for i := range 3 {
		c := done.wait(t)
		assert.Equal(t, uint64(i), c.ID)
		assert.ErrorIs(t, c.Err, rdma.ErrFlushed)
		assert.ErrorIs(t, c.Err, cause)
	}
	assert.ErrorIs(t, b.inbox.closeError(t), cause)
	assert.Error(t, a.inbox.closeError(t))
	assert.ErrorIs(t, b.Post(rdma.WR{}), cause)
}
