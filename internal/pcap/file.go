package pcap

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"
)

// HeaderLen is the length of a file's header, in bytes.
const HeaderLen = 24

const (
	magic     = 0xa1b23c4d // times are in nanoseconds
	maxPacket = 256 << 10  // in bytes; no record is longer
	ethernet  = 1          // the link type

	recordLen = 16
)

// A File is a capture that is being written. Flush returns the first error.
type File struct {
	w *bufio.Writer
}

// NewFile writes a capture's header to w.
func NewFile(w io.Writer) *File {
	f := &File{w: bufio.NewWriter(w)}
	le := binary.LittleEndian
	h := le.AppendUint32(make([]byte, 0, HeaderLen), magic)
	h = le.AppendUint16(h, 2) // version 2.4
	h = le.AppendUint16(h, 4)
	h = le.AppendUint64(h, 0) // UTC
	h = le.AppendUint32(h, maxPacket)
	h = le.AppendUint32(h, ethernet)
	_, _ = f.w.Write(h)
	return f
}

// Flush writes the buffer, and returns the first error from all writes.
func (f *File) Flush() error { return f.w.Flush() }

// writePacket writes a record.
func (f *File) writePacket(at time.Time, headers, data []byte) {
	le := binary.LittleEndian
	n := uint32(len(headers) + len(data))
	h := le.AppendUint32(make([]byte, 0, recordLen), uint32(at.Unix()))
	h = le.AppendUint32(h, uint32(at.Nanosecond()))
	h = le.AppendUint32(h, n)
	h = le.AppendUint32(h, n)
	for _, b := range [][]byte{h, headers, data} {
		_, _ = f.w.Write(b)
	}
}

// Continue returns a writer to w that drops the first HeaderLen bytes. Another
// capture can thus be appended to the capture in w.
func Continue(w io.Writer) io.Writer { return &headerSkipper{w, HeaderLen} }

type headerSkipper struct {
	w    io.Writer
	skip int
}

func (t *headerSkipper) Write(b []byte) (int, error) {
	k := min(t.skip, len(b))
	t.skip -= k
	if k == len(b) {
		return k, nil
	}
	n, err := t.w.Write(b[k:])
	return k + n, err
}
