package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A batchRead is the plan for a read that covers several FPDUs. A large message
// arrives in many consecutive FPDUs of equal length, and its memory is
// contiguous. One read can therefore receive several of them, if each header is
// at the expected position:
//
//	stream   │ payload │ header │ payload │ header │ payload │ the rest
//	         ▼         ▼        ▼         ▼        ▼         ▼
//	memory   ═══════════════════════════════════════════════
//	staging            ──────            ──────              ──────
//
// The headers are checked afterwards, in order. The bytes after an unexpected
// header are copied back to staging; by then the read has changed memory that
// these bytes do not belong to. This is allowed in the memory of local RDMA
// Reads until they complete, and in regions registered with rdma.Scratch, after
// all bytes that the peer has written.
type batchRead struct {
	pieces        [][]byte // destinations for the next stream bytes: payload and staging alternately
	arrived       int      // bytes received into pieces
	stagingOffset int      // offset of the next piece in staging
	stagedLen     int      // length of each staging piece but the last
	region        *region  // pinned, or nil

	pieceBuf, vecBuf [][]byte
}

// isNextPiece reports whether dst is the planned destination for the next
// stream bytes.
func (a *batchRead) isNextPiece(dst []byte) bool {
	next := a.pieces[0]
	return len(next) == len(dst) && &next[0] == &dst[0]
}

// discardPlan clears the plan and unpins its region.
func (a *batchRead) discardPlan() {
	if a.region != nil {
		a.region.unpin()
	}
	clear(a.pieceBuf)
	clear(a.vecBuf)
	*a = batchRead{pieceBuf: a.pieceBuf[:0], vecBuf: a.vecBuf[:0]}
}

// missingPieces returns the destinations for the bytes that have not arrived.
func (a *batchRead) missingPieces() [][]byte {
	a.vecBuf = append(append(a.vecBuf[:0], a.pieces[0][a.arrived:]), a.pieces[1:]...)
	return a.vecBuf
}

// placeBatched places a segment's payload in dst when the rest of the message
// goes into rest, which directly follows dst. It may read ahead, so the memory
// must be in the scratch region r, or belong to an RDMA Read if r is nil.
func (x *receiver) placeBatched(seg *segment, dst, rest []byte, r *region) error {
	a := &x.batch
	seg.placed = dst
	if len(dst) > shortPayload {
		x.bulkFPDUs = bulkRun
	}
	if a.arrived > 0 && x.r == x.w && a.isNextPiece(dst) {
		return x.readBatch()
	}
	if seg.last || len(rest) == 0 || len(dst) <= shortPayload || x.c.params.CRC && !x.placedEarly || x.markers != nil {
		return x.placeBytes(dst)
	}
	x.stageArrived()
	n := copy(dst, x.staging.B[x.r:x.w])
	x.r += n
	if dst = dst[n:]; len(dst) == 0 {
		return nil
	}
	x.planBatch(seg, dst, rest, r)
	return x.readBatch()
}

// planBatch plans the rest of a segment's payload and the following FPDUs,
// which have the same length. The last FPDU may be shorter.
func (x *receiver) planBatch(seg *segment, dst, rest []byte, r *region) {
	a := &x.batch
	a.stagedLen = mpa.TrailerLen(seg.ulpduLen) + mpa.LengthLen + ddp.TaggedLen
	a.pieceBuf = append(a.pieceBuf, dst)
	at := 0
	for ; len(rest) > 0 && len(a.pieceBuf) < 2*maxAhead; at += a.stagedLen {
		next := rest[:min(seg.payloadLen(), len(rest))]
		rest = rest[len(next):]
		a.pieceBuf = append(a.pieceBuf, x.staging.B[at:][:a.stagedLen], next)
	}
	a.pieceBuf = append(a.pieceBuf, x.staging.B[at:][:spill])
	a.pieces = a.pieceBuf
	if r != nil {
		r.repin()
		a.region = r
	}
}

// readBatch reads until the next payload has arrived, and stages the bytes that
// follow it.
func (x *receiver) readBatch() error {
	a := &x.batch
	for a.arrived < len(a.pieces[0]) {
		x.uncorkQueue()
		n, err := x.readSome(a.missingPieces())
		if err == errWouldBlock {
			err = x.c.sock.awaitReady(x.currentBudget())
		}
		if err != nil {
			a.discardPlan()
			return x.readError(err)
		}
		a.arrived += n
	}
	a.arrived -= len(a.pieces[0])
	staged := min(a.arrived, len(a.pieces[1]))
	x.r, x.w = a.stagingOffset, a.stagingOffset+staged
	a.arrived -= staged
	a.stagingOffset += a.stagedLen
	if a.pieces = a.pieces[2:]; a.arrived == 0 {
		a.discardPlan()
	}
	return nil
}

// stageArrived copies all bytes that have arrived to staging, since they are not the
// expected bytes.
func (x *receiver) stageArrived() {
	a := &x.batch
	if a.arrived == 0 {
		return
	}
	size := x.w - x.r + a.arrived
	b := buf.Default.Get(max(size, x.stagingLen))
	n := copy(b.B, x.staging.B[x.r:x.w])
	for _, piece := range a.pieces {
		n += copy(b.B[n:size], piece)
	}
	x.staging.Release()
	x.staging, x.r, x.w = b, 0, size
	a.discardPlan()
}
