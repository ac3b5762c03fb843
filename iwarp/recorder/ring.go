package recorder

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
)

const (
	minSize = 128 << 10 // smallest limit of a ring, in bytes: the longest FPDU, with Markers, fits
	minRing = 4 << 10   // initial size of a ring, in bytes
)

// A piece is the bytes of one FPDU that one system call moved.
type piece struct {
	time         int64 // nanoseconds since 1970
	from         pcap.Side
	starts, ends bool // includes the FPDU's first byte, and its last
	bytes        int
}

// pieceLen is the length of the header before a piece's bytes in a ring.
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

// A ring keeps the last pieces, in a bounded number of bytes. Its memory grows
// with its content, by doubling.
type ring struct {
	limit int
	b     []byte
	at    int // of the oldest piece
	used  int // bytes
}

// fits reports whether there is room for a piece of n bytes. A piece always
// fits in an empty ring.
func (r *ring) fits(n int) bool { return r.used+pieceLen+n <= r.limit }

// put adds the newest piece. The caller has checked that it fits.
func (r *ring) put(p piece, data []byte) {
	if need := r.used + pieceLen + len(data); need > len(r.b) {
		r.grow(need)
	}
	var head [pieceLen]byte
	r.append(p.appendTo(head[:0]))
	r.append(data)
}

func (r *ring) grow(need int) {
	b := make([]byte, min(r.limit, max(2*len(r.b), need, minRing)))
	r.read(b[:r.used], 0)
	r.b, r.at = b, 0
}

func (r *ring) append(b []byte) {
	to := (r.at + r.used) % len(r.b)
	k := copy(r.b[to:], b)
	copy(r.b, b[k:])
	r.used += len(b)
}

// read copies the bytes that begin offset bytes behind the start of the oldest
// piece.
func (r *ring) read(dst []byte, offset int) {
	if len(dst) == 0 {
		return
	}
	from := (r.at + offset) % len(r.b)
	k := copy(dst, r.b[from:])
	copy(dst[k:], r.b)
}

// drop removes the oldest piece.
func (r *ring) drop() piece {
	var head [pieceLen]byte
	r.read(head[:], 0)
	p := parsePiece(head)
	n := pieceLen + p.bytes
	r.at, r.used = (r.at+n)%len(r.b), r.used-n
	return p
}
