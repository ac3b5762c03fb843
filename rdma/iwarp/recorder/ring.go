package recorder

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
)

const (
	minSize = 128 << 10 // minimum ring limit, in bytes: the longest FPDU, with Markers, fits
	minRing = 4 << 10   // initial ring size, in bytes
)

// A piece is those bytes from one FPDU that one system call moved.
type piece struct {
	time         int64 // nanoseconds since 1970
	from         pcap.Side
	starts, ends bool // includes the FPDU's first byte, and its last
	bytes        int
}

// pieceLen is the length of the header before a piece's bytes in a ring, in
// bytes.
const pieceLen = 8 + 1 + 4

const (
	pieceStarts = 1 << iota
	pieceEnds
	pieceServer
)

func (p *piece) appendTo(b []byte) []byte {
	flags := byte(0)
	if p.starts {
		flags |= pieceStarts
	}
	if p.ends {
		flags |= pieceEnds
	}
	if p.from == pcap.Server {
		flags |= pieceServer
	}
	b = binary.NativeEndian.AppendUint64(b, uint64(p.time))
	b = append(b, flags)
	return binary.NativeEndian.AppendUint32(b, uint32(p.bytes))
}

func parsePiece(b [pieceLen]byte) piece {
	p := piece{
		time:   int64(binary.NativeEndian.Uint64(b[:])),
		starts: b[8]&pieceStarts != 0,
		ends:   b[8]&pieceEnds != 0,
		bytes:  int(binary.NativeEndian.Uint32(b[9:])),
	}
	if b[8]&pieceServer != 0 {
		p.from = pcap.Server
	}
	return p
}

// A ring keeps the latest pieces, in a bounded number of bytes. Its memory
// grows with its content, by doubling.
type ring struct {
	limit int
	b     []byte
	start int // offset of the oldest piece
	used  int // bytes
}

// canFit reports whether a piece of n bytes fits. A piece always fits in an
// empty ring.
func (r *ring) canFit(n int) bool { return r.used+pieceLen+n <= r.limit }

// putPiece adds the newest piece. The caller has checked that it fits.
func (r *ring) putPiece(p piece, data []byte) {
	if need := r.used + pieceLen + len(data); need > len(r.b) {
		r.growBuffer(need)
	}
	var head [pieceLen]byte
	r.appendBytes(p.appendTo(head[:0]))
	r.appendBytes(data)
}

func (r *ring) growBuffer(need int) {
	b := make([]byte, min(r.limit, max(2*len(r.b), need, minRing)))
	r.readAt(b[:r.used], 0)
	r.b, r.start = b, 0
}

func (r *ring) appendBytes(b []byte) {
	to := (r.start + r.used) % len(r.b)
	k := copy(r.b[to:], b)
	copy(r.b, b[k:])
	r.used += len(b)
}

// readAt copies the bytes that begin offset bytes after the oldest piece's
// start.
func (r *ring) readAt(dst []byte, offset int) {
	if len(dst) == 0 {
		return
	}
	from := (r.start + offset) % len(r.b)
	k := copy(dst, r.b[from:])
	copy(dst[k:], r.b)
}

// dropOldest removes the oldest piece.
func (r *ring) dropOldest() piece {
	var head [pieceLen]byte
	r.readAt(head[:], 0)
	p := parsePiece(head)
	n := pieceLen + p.bytes
	r.start, r.used = (r.start+n)%len(r.b), r.used-n
	return p
}
