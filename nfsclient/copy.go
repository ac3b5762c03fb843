package nfsclient

import (
	"context"
	"io"
	"sync"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// CopyFrom writes the content of r to f at offset off, with several calls in
// flight. It returns how many bytes from the start are on the server's stable
// storage: without an error, all of them. At most Config.Window bytes of r are
// in memory at a time. The end of ctx does not end a Read of r.
func (f *File) CopyFrom(ctx context.Context, r io.Reader, off int64) (n int64, err error) {
	if off < 0 {
		return 0, errNegative
	}
	cfg := &f.fs.c.cfg
	s := source{r: r, off: off}
	slots := make(chan struct{}, cfg.Depth)
	room := max(1, cfg.Window/2/f.fs.writeSize)
	var last *batch // becomes stable while the next batch is filled
	for err == nil && !s.end {
		b := &batch{f: f, slots: slots, done: make(chan struct{})}
		b.fill(ctx, &s, room)
		go b.makeStable(ctx)
		n, err = last.add(n, nil)
		last = b
	}
	n, err = last.add(n, err)
	if err == nil {
		err = s.err
	}
	return n, err
}

// A source is the input of a copy.
type source struct {
	r   io.Reader
	off int64 // offset in the file of the next byte
	end bool
	err error // nil if r ended normally
}

// read fills p, or reaches the end.
func (s *source) read(p []byte) (n int) {
	for idle := 0; n < len(p) && !s.end; idle++ {
		m, err := s.r.Read(p[n:])
		if n += m; m > 0 {
			idle = 0
		}
		switch {
		case err == io.EOF: // any other error, such as io.ErrUnexpectedEOF, loses data
			s.end = true
		case err != nil:
			s.fail(err)
		case idle == maxIdleReads:
			s.fail(io.ErrNoProgress)
		}
	}
	s.off += int64(n)
	return n
}

func (s *source) fail(err error) { s.end, s.err = true, err }

// A batch holds the pieces of one COMMIT.
type batch struct {
	f     *File
	slots chan struct{} // one entry per call in flight of the whole copy
	calls sync.WaitGroup
	done  chan struct{} // closed when the other fields are final

	pieces []*piece
	bytes  int64

	mu  sync.Mutex
	err error
}

// fill writes up to room pieces.
func (b *batch) fill(ctx context.Context, s *source, room int) {
	for len(b.pieces) < room && !s.end && b.failure() == nil {
		select {
		case b.slots <- struct{}{}:
		case <-ctx.Done():
			s.fail(context.Cause(ctx))
			return
		}
		lent, off := buf.Default.Get(b.f.fs.writeSize), s.off
		n := s.read(lent.B)
		if n == 0 {
			lent.Release()
			<-b.slots
			return
		}
		how := nfs3.Unstable
		if s.end && b.bytes == 0 {
			how = nfs3.FileSync // one call instead of two
		}
		b.bytes += int64(n)
		b.write(ctx, &piece{off: off, data: lent.B[:n], lent: lent}, how)
	}
}

// write starts writing p, and does not wait.
func (b *batch) write(ctx context.Context, p *piece, how nfs3.Stable) {
	b.pieces = append(b.pieces, p)
	b.calls.Go(func() {
		defer func() { <-b.slots }()
		if _, err := b.f.put(ctx, p, how); err != nil {
			b.fail(err)
		} else if p.stable {
			p.release()
		}
	})
}

// makeStable waits until the batch is on stable storage, and frees the batch's
// memory.
func (b *batch) makeStable(ctx context.Context) {
	defer close(b.done)
	b.calls.Wait()
	if b.failure() == nil {
		b.fail(b.f.makeStable(ctx, b.pieces))
	}
	for _, p := range b.pieces {
		p.release()
	}
}

// add waits for b, and adds b's bytes to n unless b failed or err is set.
func (b *batch) add(n int64, err error) (int64, error) {
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

func (b *batch) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
