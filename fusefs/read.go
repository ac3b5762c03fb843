package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Read implements fuse.RawFileSystem. The data go from the connection straight
// to p, or, for a large READ, to a readBuffer, which go-fuse gives to the
// kernel.
func (m *Mount) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	f := m.files.file(in.Fh)
	switch {
	case f == nil:
		return nil, fuse.EBADF
	case f.lockers.lost.Load():
		return nil, fuse.EIO
	}
	f.opened()
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	// The kernel takes a short answer for the end of the file. All data written
	// after in.Offset must therefore be at the server.
	if _, to, unsent := f.n.unsent(); unsent && to > int64(in.Offset) {
		if err := m.flush(o, f.n); err != nil {
			return nil, m.fail(err)
		}
	}
	if n, ok := f.readEarly(p, in.Offset); ok {
		return fuse.ReadResultData(p[:n]), fuse.OK
	}
	r := m.readBuffers.get(len(p))
	if r == nil {
		n, err := m.read(o, f, p, in.Offset)
		if err != nil {
			return nil, m.fail(err)
		}
		return fuse.ReadResultData(p[:n]), fuse.OK
	}
	n, err := m.read(o, f, r.mem[:len(p)], in.Offset)
	switch {
	case err != nil: // go-fuse takes data with an error for success
		r.Done()
		return nil, m.fail(err)
	case n == 0:
		r.Done()
		return fuse.ReadResultData(nil), fuse.OK
	}
	r.n = n
	return r, fuse.OK
}

// errNoData is the error if the server returns no data, but reports that more
// exist.
var errNoData = errors.New("the server returned no data and reported no error")

func (m *Mount) read(o *op, f *file, p []byte, off uint64) (int, error) {
	if len(p) > m.cfg.FS.ReadSize() { // takes several calls at a time
		n, err := m.cfg.FS.File(f.n.fh).As(f.who.cred).ReadAt(o, p, int64(off))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	n := 0
	for n < len(p) {
		began := m.tick()
		res, err := f.who.client.Read(o, f.n.fh, off+uint64(n), p[n:])
		if err != nil {
			return n, err
		}
		if m.learnPost(f.n, began, &res.Attr) {
			m.expireLater(f.n)
		}
		n += len(res.Data)
		if res.EOF {
			break
		}
		if len(res.Data) == 0 { // the kernel would take it for the end
			return n, errNoData
		}
	}
	return n, nil
}

// raiseReadAhead lets the kernel read further ahead than 128 KiB. The kernel
// limits all FUSE file systems to that: too little to keep even one READ of
// full size under way. Only root may raise the limit; mounts of other users
// read more slowly.
func (m *Mount) raiseReadAhead() {
	var st unix.Stat_t
	if err := unix.Stat(m.cfg.Point, &st); err != nil {
		return
	}
	if err := os.WriteFile(bdi(st.Dev), fmt.Appendf(nil, "%d\n", readAhead>>10), 0); err != nil {
		m.cfg.Log.Debug("reading ahead stays short", "err", err)
	}
}

// bdi returns the path of the file that sets the kernel's read-ahead on a
// device.
func bdi(dev uint64) string {
	return fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev))
}
