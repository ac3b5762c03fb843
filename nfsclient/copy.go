package nfsclient

import (
	"context"
	"io"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// CopyFrom writes r's content to f at offset off, with several calls in flight.
// It returns the number of bytes, counted from the start, that are on the
// server's stable storage: all of them if there is no error. At most
// Config.Window bytes are in memory at a time. Cancelling ctx does not
// interrupt a Read from r.
func (f *File) CopyFrom(ctx context.Context, r io.Reader, off int64) (n int64, err error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	cfg := &f.fs.c.cfg
	s := copySource{r: r, off: off}
	slots := make(chan struct{}, cfg.Depth)
	maxPieces := max(1, cfg.Window/2/f.fs.writeSize)
	var last *commitBatch // becomes stable while the next batch is filled
	for err == nil && !s.ended {
		b := &commitBatch{f: f, slots: slots, done: make(chan struct{})}
		b.fillFrom(ctx, &s, maxPieces)
		go b.makeStable(ctx)
		n, err = last.addStableBytes(n, nil)
		last = b
	}
	n, err = last.addStableBytes(n, err)
	if err == nil {
		err = s.err
	}
	return n, err
}

// A copySource is a copy's input.
type copySource struct {
	r     io.Reader
	off   int64 // file offset for the next byte
	ended bool
	err   error // nil if r returned io.EOF
}

// fillBuffer fills p unless the input ends first.
func (s *copySource) fillBuffer(p []byte) (n int) {
	for idle := 0; n < len(p) && !s.ended; idle++ {
		m, err := s.r.Read(p[n:])
		if n += m; m > 0 {
			idle = 0
		}
		switch {
		case err == io.EOF: // any other error, such as io.ErrUnexpectedEOF, loses data
			s.ended = true
		case err != nil:
			s.stopWithError(err)
		case idle == maxIdleReads:
			s.stopWithError(io.ErrNoProgress)
		}
	}
	s.off += int64(n)
	return n
}

func (s *copySource) stopWithError(err error) { s.ended, s.err = true, err }

// A commitBatch holds the pieces that one COMMIT makes stable.
type commitBatch struct {
	f     *File
	slots chan struct{} // one entry per call that the copy has in flight
	calls sync.WaitGroup
	done  chan struct{} // closed when the other fields are final

	pieces []*piece
	bytes  int64

	mu  sync.Mutex
	err error
}

// fillFrom reads and writes up to maxPieces pieces.
func (b *commitBatch) fillFrom(ctx context.Context, s *copySource, maxPieces int) {
	for len(b.pieces) < maxPieces && !s.ended && b.firstError() == nil {
		select {
		case b.slots <- struct{}{}:
		case <-ctx.Done():
			s.stopWithError(context.Cause(ctx))
			return
		}
		lent, off := buf.Default.Get(b.f.fs.writeSize), s.off
		n := s.fillBuffer(lent.B)
		if n == 0 {
			lent.Release()
			<-b.slots
			return
		}
		how := nfs3.Unstable
		if s.ended && b.bytes == 0 {
			how = nfs3.FileSync // one call instead of two
		}
		b.bytes += int64(n)
		b.startWrite(ctx, &piece{off: off, data: lent.B[:n], lent: lent}, how)
	}
}

// startWrite writes p in the background.
func (b *commitBatch) startWrite(ctx context.Context, p *piece, how nfs3.Stable) {
	b.pieces = append(b.pieces, p)
	b.calls.Go(func() {
		defer func() { <-b.slots }()
		if _, err := b.f.writePiece(ctx, p, how); err != nil {
			b.recordError(err)
		} else if p.stable {
			p.releaseMemory()
		}
	})
}

// makeStable waits until the batch is on stable storage, and frees its memory.
func (b *commitBatch) makeStable(ctx context.Context) {
	defer close(b.done)
	b.calls.Wait()
	if b.firstError() == nil {
		b.recordError(b.f.makeStable(ctx, b.pieces))
	}
	for _, p := range b.pieces {
		p.releaseMemory()
	}
}

// addStableBytes waits until b is stable, and adds b's bytes to n unless b
// failed or err is set.
func (b *commitBatch) addStableBytes(n int64, err error) (int64, error) {
	if b == nil {
		return n, err
	}
	<-b.done
	switch {
	case err != nil:
		return n, err
	case b.err != nil:
		return n, b.err
	}
	return n + b.bytes, nil
}

func (b *commitBatch) recordError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

func (b *commitBatch) firstError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
