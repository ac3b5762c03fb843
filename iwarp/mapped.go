package iwarp

import (
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Data that lie in the mapping of a file may vanish when the file is cut short.
// The kernel then says EFAULT, behind what it has taken:
//
//	header │ data ...... │ header │ data ... gone │ header │ Send │
//	       └─ taken ─────┘        └ taken ┘└ zeros┘        └ may be changed
//
// The FPDU has its length already, so zeros follow. Where this process would touch
// the data itself, it copies them first, and catches the fault.

var _ rdma.MappedSender = (*Conn)(nil)

// SendsMapped tells whether what is sent is copied once at most on its way to the
// kernel: with CRCs on it is, since it must not change behind them, which are computed
// by the way.
func (c *Conn) SendsMapped() bool {
	return c.sock.tcp != nil && c.sock.record == nil && !c.params.SendMarkers
}

// A mappedPart is an element of a batch that may vanish.
type mappedPart struct {
	element   int       // its index in vec
	offset    int       // of its first octet in the message
	size      int       // octets that it had at first
	truncated func(int) // its WR's
	wr        uint64    // the index of it
}

// zeros stand for what has vanished.
var zeros [mpa.MaxULPDU]byte

// vanished takes care of what the kernel could not read, if err says that and it may
// happen: what is there goes, then zeros, and who posted it is told. It reports
// whether the batch can go on.
//
// The kernel copies some elements at a time, and of these takes all or none: what
// it could not read need not be the first.
func (q *sendQueue) vanished(b *batch, err error) bool {
	if err != unix.EFAULT {
		return false
	}
	found := false
	for len(b.mapped) > 0 {
		p := b.mapped[0]
		b.mapped = b.mapped[:copy(b.mapped, b.mapped[1:])]
		if p.element < b.sent {
			continue
		}
		found = true
		rest := b.vec[p.element]
		lent := buf.Default.Get(len(rest))
		b.copies = append(b.copies, lent)
		b.vec[p.element] = lent.B
		n := copyMapped(lent.B, rest)
		if n == len(rest) {
			continue
		}
		clear(lent.B[n:])
		for _, later := range b.mapped {
			if v := &b.vec[later.element]; later.wr == p.wr {
				*v = zeros[:len(*v)]
			}
		}
		q.mu.Lock()
		if q.cur.truncated != nil && q.cur.wr == p.wr {
			q.cur.gone = true
		}
		p.truncated(p.offset + p.size - len(rest) + n)
		q.mu.Unlock()
		break
	}
	return found
}

// lend returns a copy of d, the octets of m in front of m.offset, with zeros where
// they have vanished, and adds it to sum.
func (m *message) lend(d []byte, sum *checksum) *buf.Buf {
	lent := buf.Default.Get(len(d))
	switch {
	case m.truncated == nil:
		sum.copy(lent.B, d)
	case !sum.copyMapped(lent.B, d):
		if n := copyMapped(lent.B, d); n < len(d) {
			clear(lent.B[n:])
			m.gone = true
			m.truncated(m.offset - len(d) + n)
		}
		sum.add(lent.B)
	}
	return lent
}

// copyMapped is copy where all of src is there. Where some is not, dst holds anything,
// and nothing is added.
func (s *checksum) copyMapped(dst, src []byte) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // of a fault: nothing else can go wrong here
	s.copy(dst, src)
	return true
}

// pageLen divides the length of a page on every machine, in octets.
const pageLen = 4096

// copyMapped copies src, as far as it is there, and returns how many octets that
// were.
func copyMapped(dst, src []byte) (n int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // of a fault: nothing else can go wrong here
	for n < len(src) {
		k := min(len(src)-n, pageLen-int(uintptr(unsafe.Pointer(&src[n]))%pageLen))
		copy(dst[n:], src[n:n+k])
		n += k
	}
	return n
}
