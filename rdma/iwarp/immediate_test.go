package iwarp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestImmediate checks that Immediate Data delivers its bytes, and an event if
// requested, in posting order among the Sends. Each uses a receive and
// completes at its source. No Write need precede it (R7306-6-1, R7306-6.1-1,
// R7306-6.1-2, R7306-6.3-2, R7306-6.3-3, R7306-6.3-6, R7306-6.4-1, RX01-6-1).
func TestImmediate(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			o.immediate, o.recvs = true, 200
			a, b := connectPair(t, o)
			done := make(completionWaiter, 200)
			var wrs []rdma.WR
			for i := range uint64(100) {
				imm := rdma.WR{Op: rdma.OpImmediate, Solicited: i%3 == 0, Done: done, ID: 2 * i}
				binary.BigEndian.PutUint64(imm.Immediate[:], i<<32|i)
				send := rdma.WR{Op: rdma.OpSend, Data: [][]byte{{byte(i)}}, Solicited: i%5 == 0, Done: done, ID: 2*i + 1}
				wrs = append(wrs, imm, send)
			}
			require.NoError(t, a.Post(wrs...))
			for i := range uint64(100) {
				m := b.inbox.nextRecv(t)
				assert.Nil(t, m.Buf)
				assert.True(t, m.WithImmediate)
				assert.Equal(t, i<<32|i, binary.BigEndian.Uint64(m.Immediate[:]))
				assert.Equal(t, i%3 == 0, m.Solicited)
				m = b.inbox.nextRecv(t)
				assert.Equal(t, []byte{byte(i)}, m.Buf.B)
				assert.False(t, m.WithImmediate)
				assert.Zero(t, m.Immediate)
				assert.Equal(t, i%5 == 0, m.Solicited)
				m.Buf.Release()
			}
			for i := range uint64(200) {
				c := done.wait(t)
				assert.Equal(t, i, c.ID)
				assert.NoError(t, c.Err)
			}
			assert.Zero(t, b.rx.recvs.Load())
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpImmediate}))
			require.Error(t, b.inbox.closeError(t)) // no receive is left
		})
	}
}

// memoryCheckHandler is a Handler that checks memory when a message arrives.
type memoryCheckHandler struct {
	mem     []byte
	results chan uint64
}

func (l memoryCheckHandler) Receive(m rdma.Recv) {
	want := m.Immediate[0]
	for _, b := range l.mem {
		if b != want {
			l.results <- 1 << 32
			return
		}
	}
	l.results <- uint64(want)
}

func (l memoryCheckHandler) Closed(error) { close(l.results) }

// TestWriteWithImmediate checks that a whole RDMA Write is placed when the
// following Immediate Data is completed at the sink. The pair is InfiniBand's
// RDMA Write with Immediate (R7306-6-1, R7306-7-1, RX01-6-1).
func TestWriteWithImmediate(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			const rounds = 50
			l := memoryCheckHandler{make([]byte, 200_000), make(chan uint64, rounds)}
			o.immediate, o.recvs, o.handlers[1] = true, rounds, l
			a, b := connectPair(t, o)
			r, err := b.Register(l.mem, rdma.RemoteWrite)
			require.NoError(t, err)
			for i := range byte(rounds) {
				data := make([]byte, len(l.mem))
				for j := range data {
					data[j] = i
				}
				require.NoError(t, a.Post(
					rdma.WR{Op: rdma.OpWrite, Data: [][]byte{data}, Remote: rdma.Remote{STag: r.STag()}},
					rdma.WR{Op: rdma.OpImmediate, Immediate: [8]byte{i}},
				))
				assert.EqualValues(t, i, <-l.results) // the next Write may overwrite this one
			}
			r.Deregister()
		})
	}
}
