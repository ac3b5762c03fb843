package iwarp

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A receiver parses a connection's FPDUs. Other goroutines use only readerTurn,
// recvs, peerRequests and counts; the reader goroutine owns the rest. While a
// reader is in Handler.Receive or delivers completions, HandOffReader transfers
// the ownership to the next reader by incrementing readerTurn.
type receiver struct {
	c          *Conn
	readerTurn atomic.Uint32
	pendingErr error // closes the connection after the message is delivered

	// The bytes read and not yet parsed are staging.B[r:w]. They are nil while
	// the connection rests.
	staging    *buf.Buf
	worker     *worker // serves the connection now; nil: it has its own reader
	stagingLen int     // length of staging, unless stageArrived needed more
	r, w       int
	midFPDU    bool // within an FPDU: an end of stream is an error
	bulkFPDUs  int  // remaining FPDUs for which a read into empty staging is short
	budget     waitBudget
	corked     int // messages delivered while posted requests are held back,
	corkLimit  int // at most this many

	recvs        atomic.Int64 // posted and not yet consumed
	peerRequests atomic.Int64 // the peer's RDMA Reads and atomic operations, not yet answered

	send      inbox     // queue 0
	requests  ddp.Queue // queue 1
	terminate inbox     // queue 2
	atomics   ddp.Queue // queue 3

	markers *mpa.Remover // nil: no Markers

	placedEarly bool // the FPDU's CRC is checked after its payload is placed
	batch       batchRead
	vec         [2][]byte // iovecs for one read
	seg         segment   // the segment being parsed
	readDest    []byte    // destination for the current RDMA Read Response, once bytes arrive
	readGot     int       // response bytes so far
	counts      receivedCounts
}

func (x *receiver) init(c *Conn, recvs int) {
	x.c, x.corkLimit = c, firstCorked
	size := stagingSize
	if c.params.CRC {
		size = stagingSizeCRC
	}
	if c.params.RecvMarkers {
		x.markers = mpa.NewRemover()
	}
	x.stagingLen = size
	x.staging = buf.Default.Get(size)
	x.recvs.Store(int64(recvs))
}

// releaseMemory releases the receiver's memory.
func (x *receiver) releaseMemory() {
	x.send.discardMessage()
	x.terminate.discardMessage()
	x.batch.discardPlan()
	x.releaseStaging()
}

// releaseStaging releases the staging, which is empty.
func (x *receiver) releaseStaging() {
	x.staging.Release()
	x.staging = nil
}

// scratchMemory returns memory for bytes that will be discarded.
func (x *receiver) scratchMemory() []byte { return x.staging.B }

// run reads until the stream ends or fails. The previous reader may have left
// held requests, which have already waited long, and completions to deliver.
func (x *receiver) run() error {
	x.uncorkQueue()
	if err := x.deliverCompletions(); err != nil {
		return err
	}
	for {
		switch err := x.processFPDU(); err {
		case nil:
		case errHandedOff, errResting:
			return err
		default:
			x.uncorkQueue()
			x.batch.discardPlan()
			return err
		}
	}
}

// deliverMessage passes a message to the Handler.
func (x *receiver) deliverMessage(m rdma.Recv) error {
	x.corkQueue()
	turn := x.readerTurn.Load()
	x.c.handler.Receive(m)
	if x.readerTurn.Load() != turn {
		return errHandedOff
	}
	return x.pendingErr
}

// processFPDU processes one FPDU.
func (x *receiver) processFPDU() error {
	x.uncorkSome()
	x.midFPDU = x.markers != nil && x.markers.Begun()
	x.bulkFPDUs = max(x.bulkFPDUs-1, 0)
	x.budget.nextFPDU(x.isMidMessage())
	if err := x.stageAtLeast(1); err != nil {
		return err
	}
	x.budget.nextFPDU(x.isMidMessage())
	if err := x.stageAtLeast(mpa.LengthLen); err != nil {
		return err
	}
	x.midFPDU = true
	n := mpa.ParseLength([mpa.LengthLen]byte(x.staging.B[x.r:]))
	x.budget.fpdu = mpa.FPDULen(n)
	early, err := x.mayPlaceEarly(n)
	if err != nil {
		return err
	}
	if x.placedEarly = early; x.c.params.CRC && !early {
		// Nothing is placed before the CRC has been checked (RFC 5044, Section
		// 6), so the complete FPDU is read first.
		if err := x.stageAtLeast(mpa.FPDULen(n)); err != nil {
			return err
		}
		if err := x.checkCRC(x.staging.B[x.r:][:mpa.FPDULen(n)], n); err != nil {
			return localFault(err)
		}
	}
	if x.markers != nil { // checks the Markers that have arrived
		if err := x.markers.Check(n); err != nil {
			return localFault(err)
		}
	}
	x.r += mpa.LengthLen
	if n == 0 {
		return localFault(ddp.ErrShort)
	}
	if err := x.stageAtLeast(1); err != nil {
		return err
	}
	if ddp.IsTagged(x.staging.B[x.r]) {
		return x.receiveTagged(n)
	}
	return x.receiveUntagged(n)
}

// consumeTrailer reads the padding and the CRC after a DDP segment. Afterwards the FPDU is
// complete, and the caller may deliver the segment.
func (x *receiver) consumeTrailer(seg *segment) error {
	t := mpa.TrailerLen(seg.ulpduLen)
	if err := x.stageAtLeast(t); err != nil {
		return err
	}
	if x.placedEarly {
		if err := seg.checkPlaced(x.staging.B[x.r:][:t]); err != nil {
			return localFault(err)
		}
	}
	x.r += t
	if x.markers != nil {
		if err := x.markers.End(seg.ulpduLen); err != nil {
			return localFault(err)
		}
	}
	x.counts.addSegment(seg)
	if x.c.tx.gated {
		x.c.tx.allowSending(x.c)
	}
	return nil
}

// stageAtLeast reads until n bytes are staged.
func (x *receiver) stageAtLeast(n int) error {
	for x.w-x.r < n {
		if x.batch.arrived > 0 {
			x.stageArrived()
			continue
		}
		if x.r == x.w {
			x.r, x.w = 0, 0
			if len(x.staging.B) > x.stagingLen {
				x.staging.Release()
				x.staging = buf.Default.Get(x.stagingLen)
			}
		} else if x.r+n > len(x.staging.B) {
			x.w = copy(x.staging.B, x.staging.B[x.r:x.w])
			x.r = 0
		}
		m, err := x.readv(x.staging.B[x.w:x.stagingReadEnd(n)], nil)
		if err == errWouldBlock {
			err = x.awaitBytes()
		}
		if err != nil {
			return x.readError(err)
		}
		x.w += m
	}
	return nil
}

// stagingReadEnd returns the offset where the next read into staging ends; at least n bytes are
// needed. Usually the read fills staging. After a large payload it covers little more than headers,
// because payload bytes that it stages are copied once more.
func (x *receiver) stagingReadEnd(n int) int {
	end := len(x.staging.B)
	if x.bulkFPDUs > 0 {
		end = min(end, max(x.r+n, x.w+spill))
	}
	return end
}

// awaitBytes waits until there is something to read. A connection without a
// partial message rests instead. While nothing is staged, the connection holds
// no buffer.
func (x *receiver) awaitBytes() error {
	if !x.isPartial() {
		return errResting
	}
	if x.r < x.w {
		return x.c.sock.awaitReady(x.currentBudget())
	}
	x.staging.Release()
	err := x.c.sock.awaitReady(x.currentBudget())
	x.staging = buf.Default.Get(x.stagingLen)
	return err
}

// placeBytes moves the next stream bytes to dst: it copies staged bytes, and reads the rest
// directly from the socket.
func (x *receiver) placeBytes(dst []byte) error {
	x.stageArrived()
	behind := len(x.staging.B)
	if len(dst) > shortPayload {
		behind = spill
	}
	n := copy(dst, x.staging.B[x.r:x.w])
	x.r += n
	for dst = dst[n:]; len(dst) > 0; {
		x.r, x.w = 0, 0
		m, err := x.readv(dst, x.staging.B[:behind])
		if err == errWouldBlock {
			err = x.c.sock.awaitReady(x.currentBudget())
		}
		if err != nil {
			return x.readError(err)
		}
		x.w = max(m-len(dst), 0)
		dst = dst[min(m, len(dst)):]
	}
	return nil
}

// readv reads at least one FPDU byte into a, and then the following bytes into
// b. Markers are stored separately. Held requests are sent first.
func (x *receiver) readv(a, b []byte) (int, error) {
	x.uncorkQueue()
	x.corkLimit = firstCorked
	if x.markers == nil {
		x.vec = [2][]byte{a, b}
		n, err := x.readSome(x.vec[:])
		x.vec = [2][]byte{}
		return n, err
	}
	for {
		n, err := x.readSome(x.markers.Scatter(a, b))
		if n = x.markers.Took(n); n > 0 || err != nil {
			return n, err
		}
		x.midFPDU = x.midFPDU || x.markers.Begun()
	}
}

// readSome reads at least one byte into vec. On a worker it does not wait: the
// connection rests, or gets its own reader.
func (x *receiver) readSome(vec [][]byte) (int, error) {
	if tcp := x.c.sock.tcp; tcp != nil && (x.midFPDU || x.w > x.r) {
		tcp.ackFewBytes() // the FPDU is not complete
	}
	if x.worker == nil {
		return x.c.sock.readv(vec, x.currentBudget())
	}
	n, err := x.c.sock.readvNow(vec)
	switch {
	case err == errWouldBlock && !x.isPartial() && !x.c.sock.tcp.shouldBeOwned():
		return 0, errResting
	case err == errWouldBlock:
		x.leaveWorker()
		return x.c.sock.readv(vec, x.currentBudget())
	case n >= longRead:
		x.leaveWorker()
	}
	return n, err
}

// isPartial reports whether the stream is within an FPDU, or within a message
// that will be delivered.
func (x *receiver) isPartial() bool {
	return x.midFPDU || x.w > x.r || x.isMidMessage()
}

// isMidMessage reports whether a message that will be delivered has arrived
// only in part.
func (x *receiver) isMidMessage() bool {
	return x.send.msg != nil || x.terminate.msg != nil || x.readGot > 0
}

// currentBudget returns the wait budget for the next read.
func (x *receiver) currentBudget() *waitBudget {
	x.budget.owed = x.isPartial()
	return &x.budget
}

// readError distinguishes an end of stream within a message from an orderly
// close.
func (x *receiver) readError(err error) error {
	if errors.Is(err, io.EOF) && x.isPartial() {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkCRC checks the CRC in a complete FPDU whose ULPDU has n bytes.
func (x *receiver) checkCRC(fpdu []byte, n int) error {
	if x.markers != nil {
		end := len(fpdu) - mpa.CRCLen
		return mpa.CheckTrailer(fpdu[end:], x.markers.CRC(fpdu[:end]))
	}
	end := mpa.LengthLen + n
	return mpa.CheckTrailer(fpdu[end:], mpa.UpdateCRC(0, fpdu[:end]))
}
