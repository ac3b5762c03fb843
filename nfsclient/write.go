package nfsclient

import (
	"context"
	"errors"
	"math"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// errUnstable is the error if the server violates RFC 1813, Section 3.3.7: data
// that must be on stable storage are not there when the server answers.
var errUnstable = errors.New("the server did not put data on stable storage as requested")

// A piece is a written part of a file, and its data.
type piece struct {
	off  int64
	data []byte

	stable bool   // the server has it on stable storage, otherwise
	verf   uint64 // write verifier of the server that has it in memory,
	lost   bool   // unless the server restarted while taking it

	attr nfs3.PostOpAttr // of the file, after the last WRITE of the piece

	lent *buf.Buf // memory of data, or nil
}

// end returns the offset just after p.
func (p *piece) end() int64 { return p.off + int64(len(p.data)) }

// safe reports whether p is on stable storage after a COMMIT that was answered
// with verf. If not, p is lost.
func (p *piece) safe(verf uint64) bool { return p.stable || !p.lost && p.verf == verf }

func (p *piece) release() {
	if p.lent != nil {
		p.lent.Release()
		p.lent, p.data = nil, nil
	}
}

// WriteAt writes p, of any length, at offset off, with several calls in flight.
// It returns how many bytes from the start of p are on the server's stable
// storage: fewer than len(p) only with an error.
func (f *File) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errNegative
	}
	size := f.fs.writeSize
	if len(p) <= size { // one call instead of two
		return f.put(ctx, &piece{off: off, data: p}, nfs3.FileSync)
	}
	pieces := make([]*piece, 0, (len(p)+size-1)/size)
	for i := 0; i < len(p); i += size {
		pieces = append(pieces, &piece{off: off + int64(i), data: p[i:min(len(p), i+size)]})
	}
	done, _, err := inOrder(len(pieces), f.fs.c.cfg.Depth, func(i int) (int, error) {
		return f.put(ctx, pieces[i], nfs3.Unstable)
	})
	if serr := f.makeStable(ctx, pieces[:done]); serr != nil {
		return 0, serr
	}
	return min(len(p), done*size), err
}

// put writes a piece and records how stable it is. If the server takes only a
// part, put writes the rest. It returns how many bytes the server took.
func (f *File) put(ctx context.Context, p *piece, how nfs3.Stable) (n int, err error) {
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
// verifier shows that the server has lost pieces, they are written again, this
// time with FILE_SYNC.
func (f *File) makeStable(ctx context.Context, pieces []*piece) error {
	var lost []*piece
	verf, err := f.commit(ctx, pieces)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if !p.safe(verf) {
			lost = append(lost, p)
		}
	}
	_, _, err = inOrder(len(lost), f.fs.c.cfg.Depth, func(i int) (int, error) {
		return f.put(ctx, lost[i], nfs3.FileSync)
	})
	return err
}

// commit is COMMIT for the pieces that are not stable.
func (f *File) commit(ctx context.Context, pieces []*piece) (verf uint64, err error) {
	var s span
	for _, p := range pieces {
		if !p.stable {
			s.add(p)
		}
	}
	if s == (span{}) {
		return 0, nil
	}
	res, err := f.commitSpan(ctx, s)
	return res.Verf, err
}

// A span is a part of a file, from one offset to another. The zero value is
// empty.
type span struct{ from, to int64 }

// add widens s to include p.
func (s *span) add(p *piece) {
	if *s == (span{}) {
		s.from = math.MaxInt64
	}
	s.from, s.to = min(s.from, p.off), max(s.to, p.end())
}

// commitSpan is COMMIT for a part of f.
func (f *File) commitSpan(ctx context.Context, s span) (nfs3.CommitRes, error) {
	count := s.to - s.from
	if count > math.MaxUint32 {
		count = 0 // to the end
	}
	return f.fs.c.Commit(ctx, f.handle, uint64(s.from), uint32(count))
}
