package iwarp

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A stagedLink is a link that counts the bytes that are not read to their place
// in mem.
type stagedLink struct {
	link
	mem    []byte
	staged atomic.Int64
	whole  atomic.Bool // a read could take as much as staging holds
}

func (l *stagedLink) read(vec [][]byte, d *debt) (int, error) {
	room := 0
	for _, v := range vec {
		room += len(v)
	}
	if room == stagingSize {
		l.whole.Store(true)
	}
	n, err := l.link.read(vec, d)
	for left := n; left > 0; vec = vec[1:] {
		k := min(left, len(vec[0]))
		if k > 0 && !l.isPlace(&vec[0][0]) {
			l.staged.Add(int64(k))
		}
		left -= k
	}
	return n, err
}

func (l *stagedLink) isPlace(p *byte) bool {
	at := uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(l.mem)))
	return at < uintptr(len(l.mem))
}

// TestStagedAfterPayload checks that of large payloads which arrive one by one
// hardly anything is copied after it was read, and that small messages are read
// together again behind them.
func TestStagedAfterPayload(t *testing.T) {
	world(t)
	const size, rounds = 40_000, 10
	l := &stagedLink{mem: make([]byte, 2*size)}
	e, p := againstRaw(t, raw{recvs: 1000, initiator: true, before: func(c *Conn) {
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
		p.send(writeSeg(false, r.STag(), 0, pattern(size)), writeSeg(true, r.STag(), size, pattern(size)), send())
		e.in.next(t)
		if i > 0 {
			assert.Less(t, l.staged.Load()-before, int64(3*spill), i)
		}
	}
	l.whole.Store(false)
	for range bulkRun + 2 {
		p.send(send())
		e.in.next(t)
	}
	assert.True(t, l.whole.Load())
}
