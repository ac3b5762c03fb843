package nfsclient

import (
	"context"
	"errors"
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// errUnstable is the error if the server violates RFC 1813, Section 3.3.7: data
// that must be on stable storage are not there when the server replies.
var errUnstable = errors.New("the server did not put data on stable storage as requested")

// A piece is a contiguous part of a file that is being written, with its data.
type piece struct {
	off  int64
	data []byte

	stable bool   // the server has it on stable storage; otherwise
	verf   uint64 // verf is the server's write verifier when it accepted the piece,
	lost   bool   // or, if lost, the server restarted while the piece was written

	attr nfs3.PostOpAttr // the file's, after the piece's last WRITE

	lent *buf.Buf // memory that holds data, or nil
}

// endOffset returns the offset just after p.
func (p *piece) endOffset() int64 { return p.off + int64(len(p.data)) }

// isStableAfter reports whether p is on stable storage after a COMMIT whose
// reply has the verifier verf. If not, p is lost.
func (p *piece) isStableAfter(verf uint64) bool { return p.stable || !p.lost && p.verf == verf }

func (p *piece) releaseMemory() {
	if p.lent != nil {
		p.lent.Release()
		p.lent, p.data = nil, nil
	}
}

// WriteAt writes p, of any length, at offset off, with several calls in flight.
// It returns the number of bytes, counted from the start of p, that are on the
// server's stable storage: fewer than len(p) only with an error.
func (f *File) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	size := f.fs.writeSize
	if len(p) <= size { // one call instead of two
		return f.writePiece(ctx, &piece{off: off, data: p}, nfs3.FileSync)
	}
	pieces := make([]*piece, 0, (len(p)+size-1)/size)
	for i := 0; i < len(p); i += size {
		pieces = append(pieces, &piece{off: off + int64(i), data: p[i:min(len(p), i+size)]})
	}
	done, _, err := runInOrder(len(pieces), f.fs.c.cfg.Depth, func(i int) (int, error) {
		return f.writePiece(ctx, pieces[i], nfs3.Unstable)
	})
	if serr := f.makeStable(ctx, pieces[:done]); serr != nil {
		return 0, serr
	}
	return min(len(p), done*size), err
}

// writePiece writes a piece and records its stability. If the server accepts
// only a part, writePiece writes the rest. It returns the number of bytes that
// the server accepted.
func (f *File) writePiece(ctx context.Context, p *piece, how nfs3.Stable) (n int, err error) {
	p.stable, p.lost = true, false
	for n < len(p.data) {
		res, err := f.fs.c.Write(ctx, f.handle, uint64(p.off)+uint64(n), p.data[n:], how)
		switch {
		case err != nil:
			return n, err
		case res.Count == 0:
			return n, errNoProgress
		case res.Committed == nfs3.Unstable && how != nfs3.Unstable:
			return n, errUnstable
		case res.Committed == nfs3.Unstable:
			p.lost = p.lost || !p.stable && p.verf != res.Verf
			p.stable, p.verf = false, res.Verf
		}
		n += int(res.Count)
		p.attr = res.Wcc.After
	}
	return n, nil
}

// makeStable returns when all pieces are on stable storage. If the write
// verifier shows that the server has lost pieces, makeStable writes them again
// with FILE_SYNC.
func (f *File) makeStable(ctx context.Context, pieces []*piece) error {
	var lost []*piece
	verf, err := f.commitPieces(ctx, pieces)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if !p.isStableAfter(verf) {
			lost = append(lost, p)
		}
	}
	_, _, err = runInOrder(len(lost), f.fs.c.cfg.Depth, func(i int) (int, error) {
		return f.writePiece(ctx, lost[i], nfs3.FileSync)
	})
	return err
}

// commitPieces calls COMMIT for the pieces that are not stable.
func (f *File) commitPieces(ctx context.Context, pieces []*piece) (verf uint64, err error) {
	var s fileRange
	for _, p := range pieces {
		if !p.stable {
			s.addPiece(p)
		}
	}
	if s == (fileRange{}) {
		return 0, nil
	}
	res, err := f.commitRange(ctx, s)
	return res.Verf, err
}

// A fileRange is a range of file offsets. The zero value is empty.
type fileRange struct{ from, to int64 }

// addPiece widens s to include p.
func (s *fileRange) addPiece(p *piece) {
	if *s == (fileRange{}) {
		s.from = math.MaxInt64
	}
	s.from, s.to = min(s.from, p.off), max(s.to, p.endOffset())
}

// commitRange calls COMMIT for a range of f.
func (f *File) commitRange(ctx context.Context, s fileRange) (nfs3.CommitRes, error) {
	count := s.to - s.from
	if count > math.MaxUint32 {
		count = 0 // to the end
	}
	return f.fs.c.Commit(ctx, f.handle, uint64(s.from), uint32(count))
}
