package iwarp

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A lender is a Sink that counts its Lend calls.
type lender struct {
	mem  []byte
	lent atomic.Int32
}

func (l *lender) Len() int { return len(l.mem) }

func (l *lender) Lend() []byte {
	l.lent.Add(1)
	return l.mem
}

// TestSink checks that a Read with a Sink takes its memory only when the first
// bytes of its own response arrive.
func TestSink(t *testing.T) {
	for _, crc := range []bool{false, true} {
		t.Run(fmt.Sprint("crc=", crc), func(t *testing.T) {
			world(t)
			e, p := againstRaw(t, raw{initiator: true, crc: crc})
			const size = 150_000
			want := pattern(size)
			first, none, last := &lender{mem: make([]byte, size)}, new(lender), &lender{mem: make([]byte, size)}
			done, cut := make(waiter, 2), make(waiter, 1)
			require.NoError(t, e.Post(
				rdma.WR{Op: rdma.OpRead, Sink: first, Done: done},
				rdma.WR{Op: rdma.OpRead, Sink: none, Done: done},
				rdma.WR{Op: rdma.OpRead, Sink: last, Done: cut},
			))
			req := p.readRequest()
			assert.EqualValues(t, size, req.Size)
			assert.Zero(t, first.lent.Load())
			empty := p.readRequest()
			assert.Zero(t, empty.Size)
			third := p.readRequest()
			segments := [][]byte{responseSeg(false, req.SinkSTag, req.SinkTO, nil)}
			for at := 0; at < size; at += 50_000 {
				segments = append(segments, responseSeg(at == 100_000, req.SinkSTag, req.SinkTO+uint64(at), want[at:][:50_000]))
			}
			p.send(append(segments, responseSeg(true, empty.SinkSTag, empty.SinkTO, nil))...)
			for range 2 {
				require.NoError(t, done.wait(t).Err)
			}
			assert.Equal(t, want, first.mem)
			assert.EqualValues(t, 1, first.lent.Load())
			assert.Zero(t, none.lent.Load())
			assert.Zero(t, last.lent.Load())
			p.send(responseSeg(true, third.SinkSTag, third.SinkTO, make([]byte, size/3))) // shorter than required
			p.terminate()
			assert.ErrorIs(t, cut.wait(t).Err, rdma.ErrFlushed)
			assert.Zero(t, last.lent.Load(), "of a response that is wrong")
		})
	}
}

func TestSinkInPlaceOfData(t *testing.T) {
	world(t)
	e, _ := againstRaw(t, raw{initiator: true})
	l := &lender{mem: make([]byte, 8)}
	assert.Error(t, e.Post(rdma.WR{Op: rdma.OpRead, Sink: l, Data: [][]byte{l.mem}}))
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite, rdma.OpFetchAdd, rdma.OpImmediate} {
		assert.Error(t, e.Post(rdma.WR{Op: op, Sink: l}), op)
	}
}
