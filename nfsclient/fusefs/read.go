package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Read implements fuse.RawFileSystem. The data go from the connection directly to
// p, or, for a large READ, to a readBuffer, which go-fuse passes to the kernel.
func (m *Mount) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	f := m.files.findFile(in.Fh)
	switch {
	case f == nil:
		return nil, fuse.EBADF
	case f.lockers.lost.Load():
		return nil, fuse.EIO
	}
	f.confirmOpened()
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	defer f.n.trustedUntil.clear() // the kernel forgets the atime
	if err := m.flushFrom(o, f.n, in.Offset); err != nil {
		return nil, m.errorStatus(err)
	}
	if n, ok := f.readPrefetched(p, in.Offset); ok {
		return fuse.ReadResultData(p[:n]), fuse.OK
	}
	r := m.readBuffers.get(len(p))
	if r == nil {
		n, err := m.readCurrent(o, f, p, in)
		if err != nil {
			return nil, m.errorStatus(err)
		}
		return fuse.ReadResultData(p[:n]), fuse.OK
	}
	n, err := m.readCurrent(o, f, r.mem[:len(p)], in)
	switch {
	case err != nil: // go-fuse takes data with an error for success
		r.Done()
		return nil, m.errorStatus(err)
	case n == 0:
		r.Done()
		return fuse.ReadResultData(nil), fuse.OK
	}
	r.n = n
	return r, fuse.OK
}

// flushFrom sends the data that were written to n, unless all are before off. The kernel takes a short
// reply for the end of the file; all data written after off must therefore be at the server.
func (m *Mount) flushFrom(o *op, n *node, off uint64) error {
	if _, to, unsent := n.unsentRange(); !unsent || to <= int64(off) {
		return nil
	}
	return m.flushData(o, n)
}

// readCurrent reads data, again if WRITEs have overtaken it.
func (m *Mount) readCurrent(o *op, f *openFile, p []byte, in *fuse.ReadIn) (n int, err error) {
	pending := f.n.pending.Load()
	if pending == nil {
		return m.readData(o, f, p, in.Offset)
	}
	r := pending.reads.beginRead(in.Offset, in.Offset+uint64(len(p)), in.Unique)
	defer pending.reads.endRead(r)
	for range maxRereads {
		if err := m.flushFrom(o, f.n, in.Offset); err != nil {
			return 0, err
		}
		n, err = m.readData(o, f, p, in.Offset)
		if err != nil || !pending.reads.isOutdated(r) {
			break
		}
	}
	return n, err
}

// errNoData is the error if the server returns no data, but reports that more
// exist.
var errNoData = errors.New("the server returned no data and reported no error")

func (m *Mount) readData(o *op, f *openFile, p []byte, off uint64) (int, error) {
	if len(p) > m.cfg.FS.ReadSize() { // needs several concurrent calls
		n, err := m.cfg.FS.File(f.n.fh).As(f.who.cred).ReadAt(o, p, int64(off))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	n := 0
	for n < len(p) {
		began := m.nextTick()
		res, err := f.who.client.Read(o, f.n.fh, off+uint64(n), p[n:])
		if err != nil {
			return n, err
		}
		if m.learnPostOpAttr(f.n, began, &res.Attr) {
			m.expireAttrLater(f.n)
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

// raiseReadAhead lets the kernel read further ahead than 128 KiB. The kernel limits
// all FUSE file systems to that: too little to keep even one full-size READ in
// flight. Only root may raise the limit; other users' mounts read more slowly.
func (m *Mount) raiseReadAhead() {
	var st unix.Stat_t
	if err := unix.Stat(m.cfg.Point, &st); err != nil {
		return
	}
	if err := os.WriteFile(readAheadPath(st.Dev), fmt.Appendf(nil, "%d\n", readAhead>>10), 0); err != nil {
		m.cfg.Log.Debug("cannot raise the kernel's read-ahead limit; sequential reads are slower", "err", err)
	}
}

// readAheadPath returns the path to the file that sets the kernel's read-ahead on a
// device.
func readAheadPath(dev uint64) string {
	return fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev))
}
