package iwarp

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A countingSink is a Sink that counts its Lend calls.
type countingSink struct {
	mem       []byte
	lendCount atomic.Int32
}

func (l *countingSink) Len() int { return len(l.mem) }

func (l *countingSink) Lend() []byte {
	l.lendCount.Add(1)
	return l.mem
}

// TestSink checks that a Read with a Sink takes its memory only when its own
// response begins to arrive.
func TestSink(t *testing.T) {
	for _, crc := range []bool{false, true} {
		t.Run(fmt.Sprint("crc=", crc), func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, crc: crc})
			const size = 150_000
			want := patternBytes(size)
			first, none, last := &countingSink{mem: make([]byte, size)}, new(countingSink), &countingSink{mem: make([]byte, size)}
			done, cut := make(completionWaiter, 2), make(completionWaiter, 1)
			require.NoError(t, e.Post(
				rdma.WR{Op: rdma.OpRead, Sink: first, Done: done},
				rdma.WR{Op: rdma.OpRead, Sink: none, Done: done},
				rdma.WR{Op: rdma.OpRead, Sink: last, Done: cut},
			))
			req := p.expectReadRequest()
			assert.EqualValues(t, size, req.Size)
			assert.Zero(t, first.lendCount.Load())
			empty := p.expectReadRequest()
			assert.Zero(t, empty.Size)
			third := p.expectReadRequest()
			segments := [][]byte{responseSeg(false, req.SinkSTag, req.SinkTO, nil)}
			for at := 0; at < size; at += 50_000 {
				segments = append(segments, responseSeg(at == 100_000, req.SinkSTag, req.SinkTO+uint64(at), want[at:][:50_000]))
			}
			p.sendSegments(append(segments, responseSeg(true, empty.SinkSTag, empty.SinkTO, nil))...)
			for range 2 {
				require.NoError(t, done.wait(t).Err)
			}
			assert.Equal(t, want, first.mem)
			assert.EqualValues(t, 1, first.lendCount.Load())
			assert.Zero(t, none.lendCount.Load())
			assert.Zero(t, last.lendCount.Load())
			p.sendSegments(responseSeg(true, third.SinkSTag, third.SinkTO, make([]byte, size/3))) // shorter than required
			p.readTerminate()
			assert.ErrorIs(t, cut.wait(t).Err, rdma.ErrFlushed)
			assert.Zero(t, last.lendCount.Load(), "of a response that is wrong")
		})
	}
}

func TestSinkInPlaceOfData(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{initiator: true})
	l := &countingSink{mem: make([]byte, 8)}
	assert.Error(t, e.Post(rdma.WR{Op: rdma.OpRead, Sink: l, Data: [][]byte{l.mem}}))
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite, rdma.OpFetchAdd, rdma.OpImmediate} {
		assert.Error(t, e.Post(rdma.WR{Op: op, Sink: l}), op)
	}
}
