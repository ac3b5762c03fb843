package iwarp

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A receiver parses the FPDUs of a connection. Other goroutines use only turn,
// recvs, asked and counts; the rest belongs to the reader goroutine. While a
// reader is in Handler.Receive or delivers completions, a change of turn by
// HandOffReader transfers the ownership to the next reader.
type receiver struct {
	c    *Conn
	turn atomic.Uint32
	due  error // ends the connection after the message is handed over

	// The bytes read and not parsed yet are staging.B[r:w].
	// They are nil while the connection rests.
	staging *buf.Buf
	worker  *worker // that serves the connection now; nil: it has a reader of its own
	room    int     // size of staging, unless flatten needed more
	r, w    int
	mid     bool // within an FPDU: an end of the stream is an error
	bulk    int  // so many FPDUs more, a read into empty staging is short
	debt    debt
	corked  int // messages handed over while posted requests are held back,
	most    int // for so many at most

	recvs atomic.Int64 // posted and not yet consumed
	asked atomic.Int64 // RDMA Reads and atomic operations of the peer, not yet answered

	send      inbox     // queue 0
	requests  ddp.Queue // queue 1
	terminate inbox     // queue 2
	atomics   ddp.Queue // queue 3

	markers *mpa.Remover // nil: no Markers

	early  bool // the CRC of the FPDU is checked after its payload is placed
	batch  batchRead
	vec    [2][]byte // for one read
	seg    segment   // the segment being parsed
	into   []byte    // destination of the current RDMA Read Response, once it has bytes
	got    int       // bytes of the response so far
	counts received
}

func (x *receiver) init(c *Conn, recvs int) {
	x.c, x.most = c, firstCorked
	size := stagingSize
	if c.params.CRC {
		size = stagingSizeCRC
	}
	if c.params.RecvMarkers {
		x.markers = mpa.NewRemover()
	}
	x.room = size
	x.staging = buf.Default.Get(size)
	x.recvs.Store(int64(recvs))
}

// close releases the receiver's memory.
func (x *receiver) close() {
	x.send.drop()
	x.terminate.drop()
	x.batch.drop()
	x.unstage()
}

// unstage releases the staging, which is empty.
func (x *receiver) unstage() {
	x.staging.Release()
	x.staging = nil
}

// scratch returns memory for bytes to be discarded.
func (x *receiver) scratch() []byte { return x.staging.B }

// run reads until the stream ends or an error ends the stream. The previous
// reader may have left requests held back, which waited long already, and
// completions to deliver.
func (x *receiver) run() error {
	x.uncork()
	if err := x.deliver(); err != nil {
		return err
	}
	for {
		switch err := x.fpdu(); err {
		case nil:
		case errRelieved, errRests:
			return err
		default:
			x.uncork()
			x.batch.drop()
			return err
		}
	}
}

// hand hands over a message.
func (x *receiver) hand(m rdma.Recv) error {
	x.cork()
	turn := x.turn.Load()
	x.c.handler.Receive(m)
	if x.turn.Load() != turn {
		return errRelieved
	}
	return x.due
}

// fpdu processes one FPDU.
func (x *receiver) fpdu() error {
	x.uncorkSome()
	x.mid = x.markers != nil && x.markers.Begun()
	x.bulk = max(x.bulk-1, 0)
	x.debt.next(x.within())
	if err := x.need(1); err != nil {
		return err
	}
	x.debt.next(x.within())
	if err := x.need(mpa.LengthLen); err != nil {
		return err
	}
	x.mid = true
	n := mpa.ParseLength([mpa.LengthLen]byte(x.staging.B[x.r:]))
	x.debt.fpdu = mpa.FPDULen(n)
	early, err := x.mayPlaceEarly(n)
	if err != nil {
		return err
	}
	if x.early = early; x.c.params.CRC && !early {
		// Nothing is placed before the CRC has been checked (RFC 5044, Section
		// 6), so the whole FPDU is read first.
		if err := x.need(mpa.FPDULen(n)); err != nil {
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
	if err := x.need(1); err != nil {
		return err
	}
	if ddp.IsTagged(x.staging.B[x.r]) {
		return x.taggedSegment(n)
	}
	return x.untaggedSegment(n)
}

// trailer takes the padding and the CRC behind a DDP segment. Afterwards the
// FPDU is complete, and the caller may deliver the segment.
func (x *receiver) trailer(seg *segment) error {
	t := mpa.TrailerLen(seg.n)
	if err := x.need(t); err != nil {
		return err
	}
	if x.early {
		if err := seg.checkPlaced(x.staging.B[x.r:][:t]); err != nil {
			return localFault(err)
		}
	}
	x.r += t
	if x.markers != nil {
		if err := x.markers.End(seg.n); err != nil {
			return localFault(err)
		}
	}
	x.counts.add(seg)
	if x.c.tx.gated {
		x.c.tx.ungate(x.c)
	}
	return nil
}

// need waits until n bytes are staged.
func (x *receiver) need(n int) error {
	for x.w-x.r < n {
		if x.batch.came > 0 {
			x.flatten()
			continue
		}
		if x.r == x.w {
			x.r, x.w = 0, 0
			if len(x.staging.B) > x.room {
				x.staging.Release()
				x.staging = buf.Default.Get(x.room)
			}
		} else if x.r+n > len(x.staging.B) {
			x.w = copy(x.staging.B, x.staging.B[x.r:x.w])
			x.r = 0
		}
		m, err := x.readv(x.staging.B[x.w:x.reach(n)], nil)
		if err == errWouldBlock {
			err = x.await()
		}
		if err != nil {
			return x.readError(err)
		}
		x.w += m
	}
	return nil
}

// reach returns the end of the next read into staging, of which n bytes are
// needed. Usually the read takes what there is. After a large payload it takes
// little more than headers: what it takes of the next payload is copied once
// more.
func (x *receiver) reach(n int) int {
	end := len(x.staging.B)
	if x.bulk > 0 {
		end = min(end, max(x.r+n, x.w+spill))
	}
	return end
}

// await waits until there is something to read. A connection whose peer owes
// nothing rests instead. A connection without anything staged holds no buffer.
func (x *receiver) await() error {
	if !x.partial() {
		return errRests
	}
	if x.r < x.w {
		return x.c.sock.await(x.owes())
	}
	x.staging.Release()
	err := x.c.sock.await(x.owes())
	x.staging = buf.Default.Get(x.room)
	return err
}

// place moves the next bytes of the stream to dst: staged bytes by a copy, the
// rest straight from the socket.
func (x *receiver) place(dst []byte) error {
	x.flatten()
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
			err = x.c.sock.await(x.owes())
		}
		if err != nil {
			return x.readError(err)
		}
		x.w = max(m-len(dst), 0)
		dst = dst[min(m, len(dst)):]
	}
	return nil
}

// readv reads at least one byte of the FPDUs into a, and then the bytes behind
// into b. Markers are stored separately. Requests that were held back are sent
// first.
func (x *receiver) readv(a, b []byte) (int, error) {
	x.uncork()
	x.most = firstCorked
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
		x.mid = x.mid || x.markers.Begun()
	}
}

// readSome reads at least one byte into vec. On a worker it does not wait: the
// connection rests, or has a reader of its own from now on.
func (x *receiver) readSome(vec [][]byte) (int, error) {
	if x.worker == nil {
		return x.c.sock.readv(vec, x.owes())
	}
	n, err := x.c.sock.readvNow(vec)
	switch {
	case err == errWouldBlock && !x.partial() && !x.c.sock.tcp.pays():
		return 0, errRests
	case err == errWouldBlock:
		x.leaveWorker()
		return x.c.sock.readv(vec, x.owes())
	case n >= longRead:
		x.leaveWorker()
	}
	return n, err
}

// partial reports whether the peer owes more bytes: the stream is within an
// FPDU, or within a message that will be delivered.
func (x *receiver) partial() bool {
	return x.mid || x.w > x.r || x.within()
}

// within reports whether only a part has arrived of a message that will be
// delivered.
func (x *receiver) within() bool {
	return x.send.msg != nil || x.terminate.msg != nil || x.got > 0
}

// owes returns the peer's current debt.
func (x *receiver) owes() *debt {
	x.debt.owed = x.partial()
	return &x.debt
}

// readError distinguishes an end while the peer owes bytes from an orderly end.
func (x *receiver) readError(err error) error {
	if errors.Is(err, io.EOF) && x.partial() {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkCRC checks the CRC of a whole FPDU with a ULPDU of n bytes.
func (x *receiver) checkCRC(fpdu []byte, n int) error {
	if x.markers != nil {
		end := len(fpdu) - mpa.CRCLen
		return mpa.CheckTrailer(fpdu[end:], x.markers.CRC(fpdu[:end]))
	}
	end := mpa.LengthLen + n
	return mpa.CheckTrailer(fpdu[end:], mpa.UpdateCRC(0, fpdu[:end]))
}
