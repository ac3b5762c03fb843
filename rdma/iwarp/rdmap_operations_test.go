package iwarp

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestRDMAPOperations runs RFC 5040's operations end to end and checks the
// results at each upper layer (R5040-3.2-1, R5040-3.2-3).
func TestRDMAPOperations(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			sink, source := make([]byte, 9), []byte("what is there")
			w, err := b.Register(sink, rdma.RemoteWrite) // R5040-3.2-12, R5040-8.1.1-4-1, R5040-8.1.1-5-1
			require.NoError(t, err)
			r, err := b.Register(source, rdma.RemoteRead)
			require.NoError(t, err)
			done, got := make(completionWaiter, 9), make([]byte, 4)
			send := func(id uint64, text string, invalidate, solicited bool) rdma.WR {
				return rdma.WR{
					Op: rdma.OpSend, Data: [][]byte{[]byte(text)}, Done: done, ID: id,
					Invalidate: w.STag(), WithInvalidate: invalidate, Solicited: solicited,
				}
			}
			require.NoError(t, a.Post(
				rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("wr"), []byte("ite")}, Remote: rdma.Remote{STag: w.STag(), TO: w.TO() + 2}, Done: done, ID: 0}, // R5040-5.1-5
				rdma.WR{Op: rdma.OpRead, Data: [][]byte{got}, Remote: rdma.Remote{STag: r.STag(), TO: r.TO() + 5}, Done: done, ID: 1},                          // R5040-4.4-6, R5040-5.2.1-11
				rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: done, ID: 2},
				send(3, "plain", false, false),
				send(4, "", false, true),
				send(5, "bye", true, true),
			))
			for id := range uint64(6) { // R5040-3.2-3, R5040-5.5-15-1: one for each, in order
				op := rdma.OpSend
				switch id {
				case 0:
					op = rdma.OpWrite
				case 1, 2:
					op = rdma.OpRead
				}
				require.Equal(t, rdma.Completion{ID: id, Op: op}, done.wait(t))
			}
			assert.Equal(t, "is t", string(got)) // R5040-5.2-1, R5040-5.2.1-12, R5040-5.2.2-4: delivered to the requester

			type told struct {
				text                  string
				solicited, invalidate bool
			}
			for _, want := range []told{{"plain", false, false}, {"", true, false}, {"bye", true, true}} { // R5040-5.3-5
				m := b.inbox.nextRecv(t)                    // the Write and the Reads are not delivered: R5040-3.2-7, R5040-3.2-10, R5040-5.1-2, R5040-5.2.1-4
				assert.Equal(t, want.text, string(m.Buf.B)) // R5040-3.1-7, R5040-3.2-4, R5040-5.3-3: the length is the message's
				assert.Equal(t, want.solicited, m.Solicited)
				assert.Equal(t, want.invalidate, m.WithInvalidate)
				if want.invalidate {
					assert.Equal(t, w.STag(), m.Invalidated)       // R5040-3.1-9
					assert.Nil(t, testDevice.findRegion(w.STag())) // R5040-5.3-14
				}
				m.Buf.Release()
			}
			assert.Equal(t, "\x00\x00write\x00\x00", string(sink)) // R5040-5.1-7
			assert.Empty(t, done)
			w.Deregister()
			r.Deregister()
		})
	}
}

// TestRDMAPErrorsAtBothEnds checks that both upper layers learn of an error,
// for every operation (R5040-3.2-5, R5040-3.2-8, R5040-3.2-11, R5040-5.2.1-5,
// R5040-5.4-5, R5040-5.4-6).
func TestRDMAPErrorsAtBothEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		wr    rdma.WR
		cause rdmap.Error
	}{
		"Send":       {rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, 65)}}, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 5}},
		"Invalidate": {rdma.WR{Op: rdma.OpSend, WithInvalidate: true, Invalidate: 1}, rdmap.ErrCannotInvalidate},
		"Write":      {rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}}, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0}},
		"Read":       {rdma.WR{Op: rdma.OpRead, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}}, rdmap.ErrInvalidSTag},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, pairOptions{recvSize: 64})
			require.NoError(t, a.Post(tt.wr))
			requireFault(t, a.inbox.closeError(t), true, tt.cause)
			requireFault(t, b.inbox.closeError(t), false, tt.cause)
		})
	}
}

// TestRDMAPDepths checks that the Read depths negotiated by MPA agree: each end
// serves as many Reads as the other may have outstanding, and each end can use
// its full depth (R5040-6.1-2, R5040-6.1-3, R5040-6.1-4, R5040-6.1-5).
func TestRDMAPDepths(t *testing.T) {
	for _, o := range []pairOptions{
		{},
		{initiator: Config{IRD: 2, ORD: 5}, responder: Config{IRD: 3, ORD: 9}},
		{initiator: Config{IRD: 9, ORD: 1}, responder: Config{IRD: 1, ORD: 1}},
	} {
		checkLeaks(t)
		a, b := connectPair(t, o)
		sendFirst(t, a, b)
		for _, ends := range [][2]endpoint{{a, b}, {b, a}} {
			from, to := ends[0], ends[1]
			ord := from.Params().ORD
			assert.LessOrEqual(t, ord, to.Params().IRD)
			assert.Positive(t, ord)
			done, n := make(completionWaiter, 4*ord), 4*ord
			for range n {
				require.NoError(t, from.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: done}))
			}
			for range n {
				require.NoError(t, done.wait(t).Err)
			}
		}
	}
}

// TestRDMAPTeardown checks the three ways in which a stream ends: gracefully by
// an upper layer, by a Terminate, and by TCP's loss (R5040-6.2-1).
func TestRDMAPTeardown(t *testing.T) {
	t.Run("graceful", func(t *testing.T) {
		checkLeaks(t)
		a, b := connectPair(t, pairOptions{})
		require.NoError(t, b.Close()) // R5040-6.2-2: either end may begin
		assert.ErrorIs(t, a.inbox.closeError(t), io.EOF)
		assert.ErrorIs(t, b.inbox.closeError(t), io.EOF)
	})
	t.Run("Terminate", func(t *testing.T) {
		checkLeaks(t)
		a, b := connectPair(t, pairOptions{})
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}}))
		assert.True(t, isFault(a.inbox.closeError(t))) // R5040-6.2.1-4: it arrived
		assert.True(t, isFault(b.inbox.closeError(t)))
	})
	t.Run("TCP lost", func(t *testing.T) {
		checkLeaks(t)
		a, b := connectPair(t, pairOptions{})
		done := make(completionWaiter, 1)
		require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Done: done})) // waits for the initiator
		severConn(a)
		a.inbox.closeError(t)
		assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed)
		assert.False(t, isFault(b.inbox.closeError(t)))
	})
}
