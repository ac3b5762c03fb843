package iwarp

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A countingLink is a link that counts the bytes that are not read to their place
// in mem.
type countingLink struct {
	link
	mem      []byte
	staged   atomic.Int64
	fullRead atomic.Bool // a read could take as much as staging holds
}

func (l *countingLink) read(vec [][]byte, d *waitBudget) (int, error) {
	total := 0
	for _, v := range vec {
		total += len(v)
	}
	if total == stagingSize {
		l.fullRead.Store(true)
	}
	n, err := l.link.read(vec, d)
	for left := n; left > 0; vec = vec[1:] {
		k := min(left, len(vec[0]))
		if k > 0 && !l.isInMem(&vec[0][0]) {
			l.staged.Add(int64(k))
		}
		left -= k
	}
	return n, err
}

func (l *countingLink) isInMem(p *byte) bool {
	at := uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(l.mem)))
	return at < uintptr(len(l.mem))
}

// TestStagedAfterPayload checks that when large payloads arrive one by one,
// hardly anything is copied after it was read, and that small messages are read
// together again behind them.
func TestStagedAfterPayload(t *testing.T) {
	checkLeaks(t)
	const size, rounds = 40_000, 10
	l := &countingLink{mem: make([]byte, 2*size)}
	e, p := connectRaw(t, rawOptions{recvs: 1000, initiator: true, before: func(c *Conn) {
		l.link, c.sock.link = c.sock.link, l
	}})
	r, err := e.Register(l.mem, rdma.RemoteWrite|rdma.Scratch)
	require.NoError(t, err)
	defer r.Deregister()
	sends := uint32(0)
	send := func() []byte {
		sends++
		return sendSeg(true, sends, 0, make([]byte, 100))
	}
	for i := range rounds {
		before := l.staged.Load()
		p.sendSegments(writeSeg(false, r.STag(), 0, patternBytes(size)), writeSeg(true, r.STag(), size, patternBytes(size)), send())
		e.inbox.nextMessage(t)
		if i > 0 {
			assert.Less(t, l.staged.Load()-before, int64(3*spill), i)
		}
	}
	l.fullRead.Store(false)
	for range bulkRun + 2 {
		p.sendSegments(send())
		e.inbox.nextMessage(t)
	}
	assert.True(t, l.fullRead.Load())
}
