package iwarp

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A batchRead is the plan of a read that takes several FPDUs. A large message
// arrives in many consecutive FPDUs of the same length, and its memory is
// contiguous. One read can therefore take several of these FPDUs, if each
// header comes at the expected position:
//
//	stream   │ payload │ header │ payload │ header │ payload │ the rest
//	         ▼         ▼        ▼         ▼        ▼         ▼
//	memory   ═══════════════════════════════════════════════
//	staging            ──────            ──────              ──────
//
// The headers are checked afterwards, in order. The bytes behind an unexpected
// header are copied back to staging; by then the read has changed memory that
// these bytes do not belong to. This is allowed in the memory of this end's
// RDMA Reads until they complete, and in regions registered with rdma.Scratch,
// behind all bytes that the peer has written.
type batchRead struct {
	pieces [][]byte // destinations of the next bytes of the stream: payload and staging alternately
	came   int      // bytes of pieces that have arrived
	at     int      // offset of the next piece in staging
	gap    int      // length of each piece of staging but the last
	region *region  // pinned, or nil

	store, vec [][]byte
}

// expects reports whether the next bytes of the stream were planned to go to
// dst.
func (a *batchRead) expects(dst []byte) bool {
	next := a.pieces[0]
	return len(next) == len(dst) && &next[0] == &dst[0]
}

// drop forgets the plan.
func (a *batchRead) drop() {
	if a.region != nil {
		a.region.unpin()
	}
	clear(a.store)
	clear(a.vec)
	*a = batchRead{store: a.store[:0], vec: a.vec[:0]}
}

// left returns the destinations of the bytes that have not arrived.
func (a *batchRead) left() [][]byte {
	a.vec = append(append(a.vec[:0], a.pieces[0][a.came:]), a.pieces[1:]...)
	return a.vec
}

// placeMore is place for a segment's payload if the rest of the message goes
// into rest, directly behind dst. The memory must be such that it may be
// changed early: it belongs to the region r, or to an RDMA Read if r is nil.
func (x *receiver) placeMore(seg *segment, dst, rest []byte, r *region) error {
	a := &x.batch
	seg.placed = dst
	if len(dst) > shortPayload {
		x.bulk = bulkRun
	}
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

// expect plans the rest of a segment's payload and the following FPDUs of the
// same length. The last FPDU may be shorter.
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

// readBatch reads until the next payload has arrived, and stages the bytes
// behind that payload.
func (x *receiver) readBatch() error {
	a := &x.batch
	for a.came < len(a.pieces[0]) {
		x.uncork()
		n, err := x.readSome(a.left())
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

// flatten copies all bytes that have arrived to staging, since they are not the
// expected bytes.
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
