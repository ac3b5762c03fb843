package nfs4server

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	// readPlusHead is the length in bytes of READ_PLUS's number and results
	// without the segment.
	readPlusHead = minResult + 4 + 4

	// dataLen is the length in bytes of a data segment without its data, and
	// holeLen that of a hole.
	dataLen = 4 + 8 + 4
	holeLen = 4 + 8 + 8

	// minHole is the shortest hole in bytes for which data is cut: reading zeros
	// is cheaper than another call. Only the first hole behind data counts, so
	// that a READ_PLUS asks the file system three times at most.
	minHole = 64 << 10

	// maxApart is the most data in bytes beside a Write chunk, which READ_PLUS
	// must not use.
	maxApart = 4 << 10
)

// readPlus is READ_PLUS (RFC 7862, Section 15.10). It returns one segment: a
// hole if the file system says so, within the requested range, or else data.
func readPlus(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	attr, f, status := x.toRead(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	defer done(f)
	if a.Count == 0 || a.Offset >= attr.Size {
		if _, _, err := x.readAt(ctx, f, &nfs4.ReadArgs{}, nil); err != nil { // checks the rights
			return x.status(err)
		}
		res := nfs4.ReadPlusRes{EOF: a.Offset >= attr.Size}
		x.out = res.AppendTo(x.out)
		return nfs4.OK
	}
	end := a.Offset + min(uint64(a.Count), attr.Size-a.Offset)
	hole, upTo, err := x.content(ctx, f, &attr, a.Offset, end)
	switch {
	case err != nil:
		return x.status(err)
	case hole:
		res := nfs4.ReadPlusRes{EOF: upTo >= attr.Size, N: 1}
		part := nfs4.Segment{What: nfs4.ContentHole, Offset: a.Offset, Length: upTo - a.Offset}
		x.out = part.AppendTo(res.AppendTo(x.out))
		return nfs4.OK
	}
	if a.Count = uint32(upTo - a.Offset); len(x.call.ItemRooms) > 0 {
		return x.readPlusBeside(ctx, f, &a)
	}
	return x.readPlusItem(ctx, f, &a)
}

// content reports whether a range of the current file, which begins at off and
// ends within the file, begins with a hole, and the end of that hole or data. A
// file that occupies as much storage as it has bytes has no hole.
func (x *compound) content(ctx context.Context, f *realm.File, a *vfs.Attr, off, end uint64) (hole bool, upTo uint64, err error) {
	if x.current.use.Export.Spacer == nil || a.Used >= a.Size {
		return false, end, nil
	}
	data, _, err := x.nextContent(ctx, f, a, off, false)
	switch {
	case err != nil:
		return false, end, ignoreNXIO(err)
	case data >= end:
		return true, end, nil
	case data-off >= minHole:
		return true, data, nil
	}
	start, _, err := x.nextContent(ctx, f, a, data, true)
	if err != nil || start >= end {
		return false, end, ignoreNXIO(err)
	}
	data, _, err = x.nextContent(ctx, f, a, start, false)
	if err == nil && (data >= end || data-start >= minHole) {
		end = start
	}
	return false, end, ignoreNXIO(err)
}

// readPlusItem reads into a data item, which goes with the message: the call has
// no Write chunk.
func (x *compound) readPlusItem(ctx context.Context, f *realm.File, a *nfs4.ReadArgs) nfs4.Status {
	n := x.server.realm.ReadCount(a.Offset, a.Count, x.left()-readPlusHead-dataLen)
	read := &x.results.read
	status := nfs4.OK
	if x.lend(ctx, f, a, n, cutReadPlus) {
		status = read.Status
	} else {
		status = x.readItem(ctx, f, a, n)
	}
	if status != nfs4.OK {
		return status
	}
	x.out = appendData(x.out, read.EOF, a.Offset, int(read.Count))
	x.placed(int(read.Count))
	return nfs4.OK
}

// cutReadPlus is cutRead for a READ_PLUS with one segment of data. A segment of no
// bytes says that the file ends there.
func cutReadPlus(head []byte, n int, err error) []byte {
	return cutData(head, len(head)-(readPlusHead-4)-dataLen, n, err)
}

// readPlusBeside reads into the results: a data item would go into the call's
// Write chunk (RFC 8267, Section 6.1).
func (x *compound) readPlusBeside(ctx context.Context, f *realm.File, a *nfs4.ReadArgs) nfs4.Status {
	n := x.server.realm.ReadCount(a.Offset, min(a.Count, maxApart), x.left()-readPlusHead-dataLen)
	at := len(x.out)
	x.out = appendData(x.out, false, a.Offset, 0)
	from := len(x.out)
	x.out = slices.Grow(x.out, n+3)
	got, eof, err := x.readAt(ctx, f, a, x.out[from:from+n])
	if err != nil {
		x.out = x.out[:at]
		return x.dataStatus(ctx, err)
	}
	appendData(x.out[:at], eof, a.Offset, got)
	x.out = append(x.out[:from+got], make([]byte, xdr.Pad(got))...)
	return nfs4.OK
}

// appendData appends the results with a segment of data, up to the data's
// length.
func appendData(b []byte, eof bool, off uint64, n int) []byte {
	res := nfs4.ReadPlusRes{EOF: eof, N: 1}
	b = xdr.AppendUint32(res.AppendTo(b), uint32(nfs4.ContentData))
	return xdr.AppendUint32(xdr.AppendUint64(b, off), uint32(n))
}

// ignoreNXIO takes away the error of a file that has become shorter: all is
// data, which a read then finds missing.
func ignoreNXIO(err error) error {
	if errors.Is(err, syscall.ENXIO) {
		return nil
	}
	return err
}
