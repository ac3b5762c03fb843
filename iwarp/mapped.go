package iwarp

import (
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Data that lie in the mapping of a file may vanish: the file is cut short, or its
// medium fails. The kernel then says EFAULT, behind what it has taken:
//
//	header │ data ...... │ header │ data ... gone │ header │ Send │
//	       └─ taken ─────┘        └ taken ┘└ read again     └ may be changed
//
// The FPDU has its length already, so zeros follow what can be read no more. Where
// this process would touch the data itself, it copies them first, and catches the
// fault. Either may wait for a disk, and so is done without the queue's lock.

var _ rdma.MappedSender = (*Conn)(nil)

// SendsMapped tells whether what is sent is copied once at most on its way to the
// kernel: with CRCs on it is, since it must not change behind them, which are computed
// by the way.
func (c *Conn) SendsMapped() bool {
	return c.sock.tcp != nil && c.sock.record == nil && !c.params.SendMarkers
}

// A reread is that of a WR.
type reread func(p []byte, at int) (n, shorter int)

// A mappedPart is an element of a batch that may vanish.
type mappedPart struct {
	element int // its index in vec
	offset  int // of its first octet in the message
	size    int // octets that it had at first
	reread  reread
	wr      uint64 // the index of the WR
}

// A builtSend is a Send that stands in a batch, in one FPDU.
type builtSend struct {
	wr      uint64 // the index of the WR
	header  int    // where the FPDU begins in headers
	ulpdu   int    // what its length field says
	payload int    // the first element of the payload
}

// zeros stand for what has vanished.
var zeros [mpa.MaxULPDU]byte

// vanished takes care of what the kernel could not read, if err says that and it may
// happen: what is there goes, then what the WR's owner still gets, then zeros. It
// reports whether the batch can go on.
//
// The kernel copies some elements at a time, and of these takes all or none: what
// it could not read need not be the first.
func (q *sendQueue) vanished(b *batch, err error) bool {
	if err != unix.EFAULT {
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

// cutBehind notes that the data of a work request have vanished, and shortens the
// Send behind it by n octets. False: it cannot be, since a part of it is cut into
// FPDUs already.
func (q *sendQueue) cutBehind(b *batch, wr uint64, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cur.active && q.cur.reread != nil && q.cur.wr == wr {
		q.cur.gone = true
	}
	return n == 0 || q.shorten(b, wr, n)
}

// shorten leaves the last n octets of the Send away that was posted behind a work
// request. False: a part of it has left perhaps. q.mu is held.
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

// shorten is the queue's for a Send that stands in the batch. Its padding stays as
// long as it was.
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

// lend returns a copy of d, the octets of m in front of m.offset, with zeros where
// they have vanished, and adds it to sum.
func (m *message) lend(d []byte, sum *checksum) *buf.Buf {
	lent := buf.Default.Get(len(d))
	if m.reread == nil {
		sum.copy(lent.B, d)
		return lent
	}
	q := m.queue
	q.copying = true // m is the writer's, and so is what it changes
	q.mu.Unlock()
	shorter := m.lendMapped(lent.B, d, sum)
	q.mu.Lock()
	q.copying = false
	if shorter > 0 {
		q.shorten(nil, m.wr, shorter) // not begun: m is not at its end
	}
	return lent
}

// lendMapped copies d to b and adds it to sum. It returns by how many octets the
// Send behind is to be shorter.
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
