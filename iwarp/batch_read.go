package iwarp

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A large message comes in many FPDUs of the same length, one behind the other, and
// its memory is of one piece. So one read can take several of them, if each header
// comes where it is expected:
//
//	stream   │ payload │ header │ payload │ header │ payload │ what follows
//	         ▼         ▼        ▼         ▼        ▼         ▼
//	memory   ═══════════════════════════════════════════════
//	staging            ──────            ──────              ──────
//
// Headers are looked at afterwards, one by one. What came behind one that is not as
// expected is taken back to staging, and has then changed memory that it is not
// for. That is allowed in memory of this end's RDMA Reads until they complete, and
// in what was registered with rdma.Scratch, behind all that the peer has written.
type batchRead struct {
	pieces [][]byte // where the octets go that are next in the stream: payload, then staging, in turn
	came   int      // octets of them that have come
	at     int      // of the next piece in staging
	gap    int      // octets of each but the last
	region *region  // pinned, or nil

	store, vec [][]byte
}

// expects tells whether what comes next was to go to dst.
func (a *batchRead) expects(dst []byte) bool {
	next := a.pieces[0]
	return len(next) == len(dst) && &next[0] == &dst[0]
}

// drop forgets what was expected.
func (a *batchRead) drop() {
	if a.region != nil {
		a.region.unpin()
	}
	clear(a.store)
	clear(a.vec)
	*a = batchRead{store: a.store[:0], vec: a.vec[:0]}
}

// left returns where the octets go that have not come.
func (a *batchRead) left() [][]byte {
	a.vec = append(append(a.vec[:0], a.pieces[0][a.came:]), a.pieces[1:]...)
	return a.vec
}

// placeMore is place for a segment's payload, where the rest of the message goes
// behind dst, into rest, and that may be changed: it is of the region r, or of an
// RDMA Read.
func (x *receiver) placeMore(seg *segment, dst, rest []byte, r *region) error {
	a := &x.batch
	seg.placed = dst
	if a.came > 0 && x.r == x.w && a.expects(dst) {
		return x.readBatch()
	}
	if seg.last || len(rest) == 0 || len(dst) <= shortPayload || x.c.params.CRC && !x.early || x.markers != nil {
		return x.place(dst)
	}
	x.flatten()
	n := copy(dst, x.staging.B[x.r:x.w])
	x.r += n
	if dst = dst[n:]; len(dst) == 0 {
		return nil
	}
	x.expect(seg, dst, rest, r)
	return x.readBatch()
}

// expect makes a plan for the rest of a segment's payload, and for FPDUs as long as
// it behind it, the last perhaps shorter.
func (x *receiver) expect(seg *segment, dst, rest []byte, r *region) {
	a := &x.batch
	a.gap = mpa.TrailerLen(seg.n) + mpa.LengthLen + ddp.TaggedLen
	a.store = append(a.store, dst)
	at := 0
	for ; len(rest) > 0 && len(a.store) < 2*maxAhead; at += a.gap {
		next := rest[:min(seg.payload(), len(rest))]
		rest = rest[len(next):]
		a.store = append(a.store, x.staging.B[at:][:a.gap], next)
	}
	a.store = append(a.store, x.staging.B[at:][:spill])
	a.pieces = a.store
	if r != nil {
		r.repin()
		a.region = r
	}
}

// readBatch reads until the payload has come that is next, and stages what is behind it.
func (x *receiver) readBatch() error {
	a := &x.batch
	for a.came < len(a.pieces[0]) {
		x.uncork()
		n, err := x.c.sock.readv(a.left(), x.owes())
		if err == errWouldBlock {
			err = x.c.sock.await(x.owes())
		}
		if err != nil {
			a.drop()
			return x.readError(err)
		}
		a.came += n
	}
	a.came -= len(a.pieces[0])
	staged := min(a.came, len(a.pieces[1]))
	x.r, x.w = a.at, a.at+staged
	a.came -= staged
	a.at += a.gap
	if a.pieces = a.pieces[2:]; a.came == 0 {
		a.drop()
	}
	return nil
}

// flatten stages all that has come, since it is not what was expected.
func (x *receiver) flatten() {
	a := &x.batch
	if a.came == 0 {
		return
	}
	size := x.w - x.r + a.came
	b := buf.Default.Get(max(size, x.room))
	n := copy(b.B, x.staging.B[x.r:x.w])
	for _, piece := range a.pieces {
		n += copy(b.B[n:size], piece)
	}
	x.staging.Release()
	x.staging, x.r, x.w = b, 0, size
	a.drop()
}
