package iwarp

import (
	"errors"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Data in the mapping of a file may vanish if the file is truncated or its
// medium fails. The kernel then returns EFAULT, after it has taken a part:
//
//	header │ data ...... │ header │ data ... gone │ header │ Send │
//	       └─ taken ─────┘        └ taken ┘└ read again     └ may be changed
//
// The length of the FPDU is fixed by then, so zeros replace the unreadable
// data. If this process must access the data itself, it copies the data first
// and catches the fault. Both may wait for a disk and therefore happen without
// the queue's lock.

var _ rdma.MappedSender = (*Conn)(nil)

// SendsMapped reports whether data is copied at most once on its way to the
// kernel. With CRCs on, the data is copied, since it must not change after its
// CRC is computed; the copy computes the CRC.
func (c *Conn) SendsMapped() bool {
	return c.sock.mapped && c.sock.record == nil && !c.params.SendMarkers
}

// A reread is the Reread function of a WR.
type reread func(p []byte, at int) (n, shorter int)

// A mappedPart is an element of a batch whose data may vanish.
type mappedPart struct {
	element int // its index in vec
	offset  int // of its first byte in the message
	size    int // its initial length in bytes
	reread  reread
	wr      uint64 // the index of the WR
}

// A builtSend is a Send in a batch, in one FPDU.
type builtSend struct {
	wr      uint64 // the index of the WR
	header  int    // offset of the FPDU in headers
	ulpdu   int    // value of its length field
	payload int    // index of the first element of the payload
}

// zeros replace vanished data.
var zeros [mpa.MaxULPDU]byte

// vanished handles memory that the kernel could not read, if err is EFAULT and
// the batch has such memory. The readable part is sent first, then the data
// that the WR's owner can still supply, then zeros. It reports whether the
// batch can continue.
//
// The kernel copies some elements at a time, and takes all or none of them: the
// unreadable element need not be the first.
func (q *sendQueue) vanished(b *batch, err error) bool {
	if !errors.Is(err, unix.EFAULT) {
		return false
	}
	for len(b.mapped) > 0 {
		p := b.mapped[0]
		b.mapped = b.mapped[:copy(b.mapped, b.mapped[1:])]
		if p.element < b.sent {
			continue
		}
		rest := b.vec[p.element]
		lent := buf.Default.Get(len(rest))
		b.copies = append(b.copies, lent)
		b.vec[p.element] = lent.B
		n := copyMapped(lent.B, rest)
		if n == len(rest) {
			if len(b.mapped) == 0 {
				return true
			}
			continue
		}
		got, shorter := p.reread(lent.B[n:], p.offset+p.size-len(rest)+n)
		if n += got; n == len(rest) {
			return true
		}
		clear(lent.B[n:])
		for _, later := range b.mapped {
			if v := &b.vec[later.element]; later.wr == p.wr {
				*v = zeros[:len(*v)]
			}
		}
		return q.cutBehind(b, p.wr, shorter)
	}
	return false
}

// cutBehind notes that the data of a work request has vanished, and shortens
// the following Send by n bytes. It returns false if it cannot shorten the Send
// because a part of the Send is already cut into FPDUs.
func (q *sendQueue) cutBehind(b *batch, wr uint64, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cur.active && q.cur.reread != nil && q.cur.wr == wr {
		q.cur.gone = true
	}
	return n == 0 || q.shorten(b, wr, n)
}

// shorten drops the last n bytes of the Send posted after a work request. It
// returns false if a part of the Send may have left. The caller holds q.mu.
func (q *sendQueue) shorten(b *batch, wr uint64, n int) bool {
	for wr++; wr < q.tail; wr++ {
		w := q.at(wr)
		switch {
		case w.Op != rdma.OpSend:
		case wr > q.next || wr == q.next && !q.cur.active:
			w.length -= n
			return true
		default:
			return b.shorten(wr, n)
		}
	}
	return false
}

// shorten is sendQueue.shorten for a Send in the batch. The padding keeps its
// length.
func (b *batch) shorten(wr uint64, n int) bool {
	for _, s := range b.sends {
		if s.wr != wr {
			continue
		}
		mpa.AppendLength(b.headers[:s.header], s.ulpdu-n)
		end := s.payload
		for left := s.ulpdu - ddp.UntaggedLen; left > 0; end++ {
			left -= len(b.vec[end])
		}
		for n > 0 {
			end--
			v := &b.vec[end]
			k := min(n, len(*v))
			*v, n = (*v)[:len(*v)-k], n-k
		}
		return true
	}
	return false
}

// lend returns a copy of d, the bytes of m before m.offset, with zeros for
// vanished data, and adds the copy to sum.
func (m *message) lend(d []byte, sum *checksum) *buf.Buf {
	lent := buf.Default.Get(len(d))
	if m.reread == nil {
		sum.copy(lent.B, d)
		return lent
	}
	q := m.queue
	q.copying = true // m and the fields it changes belong to the writer
	q.mu.Unlock()
	shorter := m.lendMapped(lent.B, d, sum)
	q.mu.Lock()
	q.copying = false
	if shorter > 0 {
		q.shorten(nil, m.wr, shorter) // the Send has not begun: m is not at its end
	}
	return lent
}

// lendMapped copies d to b and adds b to sum. It returns by how many bytes the
// following Send must be shortened.
func (m *message) lendMapped(b, d []byte, sum *checksum) (shorter int) {
	if sum.copyMapped(b, d) {
		return 0
	}
	n := copyMapped(b, d)
	if n < len(d) {
		var got int
		got, shorter = m.reread(b[n:], m.offset-len(d)+n)
		n += got
	}
	if n < len(d) {
		clear(b[n:])
		m.gone = true
	}
	sum.add(b)
	return shorter
}

// copyMapped is copy if all of src is readable. Otherwise the content of dst is
// undefined and s is unchanged.
func (s *checksum) copyMapped(dst, src []byte) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // of a fault: nothing else can go wrong here
	s.copy(dst, src)
	return true
}

// pageLen divides the length of a page on every machine, in bytes.
const pageLen = 4096

// copyMapped copies src up to the first unreadable byte and returns the number
// of bytes copied.
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
