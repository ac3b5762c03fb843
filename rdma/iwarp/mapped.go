package iwarp

import (
	"errors"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mappedsend"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// Data in a file mapping may vanish if the file is truncated or its medium
// fails. The kernel then returns EFAULT, after it has accepted a part:
//
//	header │ data ...... │ header │ data ... gone │ header │ Send │
//	       └─ taken ─────┘        └ taken ┘└ read again     └ may be changed
//
// The FPDU's length is fixed by then, so zeros replace the unreadable data.
// Both the kernel and Reread may wait for a disk, and therefore run without the
// queue's lock.
//
// If this process must access the data itself, it copies the data first. A page fault that waits
// for a disk would block the goroutine's P, the garbage collector would wait for that P, and all
// other goroutines for the collector. Therefore a system call waits for the pages before the copy
// (makeReadable). A fault on a page that was evicted since then is caught.

var _ rdma.MappedSender = (*Conn)(nil)

// SendsMapped reports whether mapped data is copied at most once on its way to
// the kernel. With CRCs on, the data is copied, since it must not change after
// its CRC is computed; the copy computes the CRC.
//
// While many disks do not respond, it returns false (package mappedsend).
func (c *Conn) SendsMapped() bool { return c.sendsMapped() && !mappedsend.IsCrowded() }

// sendsMapped is SendsMapped regardless of the disks' state.
func (c *Conn) sendsMapped() bool {
	return c.sock.mapped && c.sock.record == nil && !c.params.SendMarkers
}

// enterDiskWait acquires a slot for waiting on a disk (package mappedsend), and returns false if
// the connection can no longer send. If it returns true, leaveDiskWait must follow. Until then a
// lack of progress is not the peer's fault.
func (q *sendQueue) enterDiskWait() bool {
	q.waitsForDisk.Store(true)
	if mappedsend.Await(q.hasEnded) {
		return true
	}
	q.waitsForDisk.Store(false)
	return false
}

func (q *sendQueue) leaveDiskWait() {
	mappedsend.Leave()
	q.waitsForDisk.Store(false)
}

// A rereadFunc is a WR's Reread function.
type rereadFunc func(p []byte, at int) (n, shorter int)

// A mappedPart is a batch element whose data may vanish.
type mappedPart struct {
	element int // its index in vec
	offset  int // offset of its first byte in the message
	size    int // its initial length in bytes
	reread  rereadFunc
	wr      uint64 // WR index
}

// A builtSend is a Send in a batch, in one FPDU.
type builtSend struct {
	wr      uint64 // WR index
	header  int    // FPDU offset in headers
	ulpdu   int    // its length field
	payload int    // index of the first payload element
}

// zeros replace vanished data.
var zeros [mpa.MaxULPDU]byte

// replaceVanished replaces memory that the kernel could not read, if err is EFAULT and the batch
// has mapped memory. The WR's owner supplies as much data as it can, and zeros follow. It reports
// whether the batch can continue.
//
// The kernel copies several elements at a time, all or none: the unreadable element need not be the
// first. The processor does not read any of them, because their disk may not respond.
func (q *sendQueue) replaceVanished(b *batch, err error) bool {
	if !errors.Is(err, unix.EFAULT) || !q.enterDiskWait() {
		return false
	}
	defer q.leaveDiskWait()
	for len(b.mapped) > 0 {
		p := b.mapped[0]
		b.mapped = b.mapped[:copy(b.mapped, b.mapped[1:])]
		if p.element < b.writtenElems {
			continue
		}
		rest := b.vec[p.element]
		lent := buf.Default.Get(len(rest))
		b.copies = append(b.copies, lent)
		b.vec[p.element] = lent.B
		n, shorter := p.reread(lent.B, p.offset+p.size-len(rest))
		if n == len(rest) {
			if len(b.mapped) == 0 {
				return true
			}
			continue
		}
		clear(lent.B[n:])
		for _, later := range b.mapped {
			if v := &b.vec[later.element]; later.wr == p.wr {
				*v = zeros[:len(*v)]
			}
		}
		return q.markVanished(b, p.wr, shorter)
	}
	return false
}

// markVanished records that a work request's data has vanished, and shortens
// the following Send by n bytes. It returns false if it cannot shorten the Send
// because part of it is already in FPDUs.
func (q *sendQueue) markVanished(b *batch, wr uint64, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cur.active && q.cur.reread != nil && q.cur.wr == wr {
		q.cur.vanished = true
	}
	return n == 0 || q.shortenSend(b, wr, n)
}

// shortenSend drops the last n bytes from the Send posted after a work request.
// It returns false if part of the Send may already have been sent. The caller
// holds q.mu.
func (q *sendQueue) shortenSend(b *batch, wr uint64, n int) bool {
	for wr++; wr < q.tail; wr++ {
		w := q.requestAt(wr)
		switch {
		case w.Op != rdma.OpSend:
		case wr > q.next || wr == q.next && !q.cur.active:
			w.length -= n
			return true
		default:
			return b.shortenSend(wr, n)
		}
	}
	return false
}

// shortenSend is sendQueue.shortenSend for a Send in the batch. The padding
// keeps its length.
func (b *batch) shortenSend(wr uint64, n int) bool {
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

// copyPayload returns a copy of d, m's bytes before m.offset, with zeros for
// vanished data, and adds the copy to sum.
func (m *message) copyPayload(d []byte, sum *checksum) *buf.Buf {
	lent := buf.Default.Get(len(d))
	if m.reread == nil {
		sum.copy(lent.B, d)
		return lent
	}
	q := m.queue
	q.copying = true // the writer owns m and the fields that it changes
	q.mu.Unlock()
	shorter := m.copyMappedPayload(lent.B, d, sum)
	q.mu.Lock()
	q.copying = false
	if shorter > 0 {
		q.shortenSend(nil, m.wr, shorter) // the Send has not begun: m is not finished
	}
	return lent
}

// copyMappedPayload copies d to b and adds b to sum. It returns the number of bytes by which the
// following Send must be shortened.
func (m *message) copyMappedPayload(b, d []byte, sum *checksum) (shorter int) {
	if m.offset <= m.readyUpTo && sum.copyMapped(b, d) {
		return 0
	}
	if !m.queue.enterDiskWait() {
		clear(b) // the connection can no longer send
		return 0
	}
	defer m.queue.leaveDiskWait()
	if m.waitForPages(d) && sum.copyMapped(b, d) {
		return 0
	}
	n, shorter := m.reread(b, m.offset-len(d))
	if n < len(d) {
		clear(b[n:])
		m.vanished = true
	}
	sum.add(b)
	return shorter
}

// waitForPages waits for the pages that contain d, m's bytes before m.offset, and reports whether
// the processor can read them. It also waits for some following pages, because FPDUs may be as
// short as Ethernet segments.
func (m *message) waitForPages(d []byte) bool {
	if m.dataOffset > 0 { // more data follows d in the same slice
		ahead := m.data[0][m.dataOffset-len(d):]
		if ahead = ahead[:min(len(ahead), max(len(d), maxReadable))]; m.queue.readable(ahead) {
			m.readyUpTo = m.offset - len(d) + len(ahead)
			return true
		}
	}
	return m.queue.readable(d)
}

// copyMapped copies and adds src as copy does, if all of src is readable.
// Otherwise dst is undefined and s is unchanged.
func (s *checksum) copyMapped(dst, src []byte) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // catches a fault; nothing else can panic here
	s.copy(dst, src)
	return true
}
