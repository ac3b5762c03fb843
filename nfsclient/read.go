package nfsclient

import (
	"context"
	"io"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// ReadAt reads len(p) bytes, which may be any number, at offset off, with
// several calls in flight. It returns fewer bytes only with an error: io.EOF if
// the file ends before p is full.
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	size := f.fs.readSize
	if len(p) <= size {
		return f.readBlock(ctx, p, off)
	}
	blocks := (len(p) + size - 1) / size
	failed, got, err := runInOrder(blocks, f.fs.c.cfg.Depth, func(i int) (int, error) {
		return f.readBlock(ctx, p[i*size:min(len(p), (i+1)*size)], off+int64(i*size))
	})
	if err != nil {
		return failed*size + got, err
	}
	return len(p), nil
}

// readBlock fills p, which is at most one READ long. It sends another READ if
// the server returns less.
func (f *File) readBlock(ctx context.Context, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		res, err := f.fs.c.Read(ctx, f.handle, uint64(off)+uint64(n), p[n:])
		if err != nil {
			return n, err
		}
		n += len(res.Data)
		switch {
		case n == len(p):
		case res.EOF:
			return n, io.EOF
		case len(res.Data) == 0:
			return n, errNoProgress
		}
	}
	return n, nil
}

// CopyTo writes f's content from offset off to w, in order, and returns the
// number of bytes written. It reads ahead, except in short files. It always
// waits for blocks being read ahead: over RDMA, abandoning a call can cost the
// connection.
func (f *File) CopyTo(ctx context.Context, w io.Writer, off int64) (n int64, err error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	var ahead []*readAhead
	defer func() {
		for _, a := range ahead {
			<-a.done
			a.buf.Release()
		}
	}()
	for window := 1; ; window = min(2*window, f.fs.c.cfg.Depth) {
		for len(ahead) < window {
			ahead = append(ahead, f.readAhead(ctx, off))
			off += int64(f.fs.readSize)
		}
		a := ahead[0]
		<-a.done
		m, werr := w.Write(a.buf.B[:a.n])
		n += int64(m)
		switch {
		case werr != nil:
			return n, werr
		case a.err == io.EOF:
			return n, nil
		case a.err != nil:
			return n, a.err
		}
		ahead = ahead[1:]
		a.buf.Release()
	}
}

// A readAhead is a block that is being read.
type readAhead struct {
	buf  *buf.Buf
	done chan struct{} // closed when n and err are set
	n    int
	err  error
}

func (f *File) readAhead(ctx context.Context, off int64) *readAhead {
	a := &readAhead{buf: buf.Default.Get(f.fs.readSize), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.n, a.err = f.readBlock(ctx, a.buf.B, off)
	}()
	return a
}
