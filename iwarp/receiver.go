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

// A receiver takes the FPDUs of a connection apart. All but recvs and asked
// belong to the goroutine that reads: until HandOffReader has changed turn, while it is
// in Handler.Receive or delivers.
type receiver struct {
	c    *Conn
	turn atomic.Uint32
	due  error // what ends the connection when the message is handed over

	// What was read and not looked at yet is staging.B[r:w].
	staging *buf.Buf
	room    int // octets that staging has, unless what came was not as expected
	r, w    int
	mid     bool // within an FPDU: an end of the stream is an error now
	debt    debt
	corked  bool // what is posted is held back

	recvs atomic.Int64 // posted and not yet consumed
	asked atomic.Int64 // RDMA Reads and atomic operations of the peer, not yet answered

	send      inbox     // queue 0
	requests  ddp.Queue // queue 1
	terminate inbox     // queue 2
	atomics   ddp.Queue // queue 3

	markers *mpa.Remover // nil: there are none

	early  bool // the CRC of the FPDU is checked when its payload is placed
	batch  batchRead
	vec    [2][]byte // for one read
	seg    segment   // that is being taken
	into   []byte    // where the RDMA Read Response goes that is coming, once there are octets of it,
	got    int       // and how many
	counts received
}

func (x *receiver) init(c *Conn, recvs int) {
	x.c = c
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

// close gives the receiver's memory back.
func (x *receiver) close() {
	x.send.drop()
	x.terminate.drop()
	x.batch.drop()
	x.staging.Release()
}

// scratch is memory for octets that nobody wants.
func (x *receiver) scratch() []byte { return x.staging.B }

// run reads until the stream ends or an error ends it. The reader before may have
// left completions.
func (x *receiver) run() error {
	if err := x.deliver(); err != nil {
		return err
	}
	for {
		switch err := x.fpdu(); err {
		case nil:
		case errRelieved:
			return err
		default:
			x.uncork()
			x.batch.drop()
			return err
		}
	}
}

// hand hands a message over.
func (x *receiver) hand(m rdma.Recv) error {
	x.cork()
	turn := x.turn.Load()
	x.c.handler.Receive(m)
	if x.turn.Load() != turn {
		return errRelieved
	}
	return x.due
}

// fpdu takes one FPDU.
func (x *receiver) fpdu() error {
	x.mid = x.markers != nil && x.markers.Begun()
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
		// Nothing is placed before the CRC has been checked (RFC 5044,
		// Section 6), so the FPDU is taken whole.
		if err := x.need(mpa.FPDULen(n)); err != nil {
			return err
		}
		if err := x.checkCRC(x.staging.B[x.r:][:mpa.FPDULen(n)], n); err != nil {
			return localFault(err)
		}
	}
	if x.markers != nil { // those that have come
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

// trailer takes the padding and the CRC behind a DDP segment. What the segment
// delivers may be delivered after it: the FPDU is whole.
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

// need waits until n octets are staged.
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
		m, err := x.readv(x.staging.B[x.w:], nil)
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

// await waits until there is something to read. A connection that is idle holds
// no buffer.
func (x *receiver) await() error {
	if x.r < x.w {
		return x.c.sock.await(x.owes())
	}
	x.staging.Release()
	err := x.c.sock.await(x.owes())
	x.staging = buf.Default.Get(x.room)
	return err
}

// place moves the next octets of the stream to dst: what is staged already by
// a copy, the rest straight from the socket.
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

// readv reads at least one octet of the FPDUs into a, and then into b what comes
// along. Markers go elsewhere. What was posted for what has come leaves before.
func (x *receiver) readv(a, b []byte) (int, error) {
	x.uncork()
	if x.markers == nil {
		x.vec = [2][]byte{a, b}
		n, err := x.c.sock.readv(x.vec[:], x.owes())
		x.vec = [2][]byte{}
		return n, err
	}
	for {
		n, err := x.c.sock.readv(x.markers.Scatter(a, b), x.owes())
		if n = x.markers.Took(n); n > 0 || err != nil {
			return n, err
		}
		x.mid = x.mid || x.markers.Begun()
	}
}

// partial tells whether the peer owes more octets: it is within an FPDU, or within
// a message that is to be delivered.
func (x *receiver) partial() bool {
	return x.mid || x.w > x.r || x.within()
}

// within tells whether a part of a message has come that is to be delivered.
func (x *receiver) within() bool {
	return x.send.msg != nil || x.terminate.msg != nil || x.got > 0
}

// owes returns what the peer owes now.
func (x *receiver) owes() *debt {
	x.debt.owed = x.partial()
	return &x.debt
}

// readError tells an end while the peer owes octets from an orderly one.
func (x *receiver) readError(err error) error {
	if errors.Is(err, io.EOF) && x.partial() {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkCRC checks the CRC of a whole FPDU around a ULPDU of n octets.
func (x *receiver) checkCRC(fpdu []byte, n int) error {
	if x.markers != nil {
		end := len(fpdu) - mpa.CRCLen
		return mpa.CheckTrailer(fpdu[end:], x.markers.CRC(fpdu[:end]))
	}
	end := mpa.LengthLen + n
	return mpa.CheckTrailer(fpdu[end:], mpa.UpdateCRC(0, fpdu[:end]))
}
