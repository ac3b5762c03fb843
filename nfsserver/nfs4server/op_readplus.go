package nfs4server

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

const (
	// readPlusResultLen is the length in bytes of READ_PLUS's operation number and results
	// without the segment.
	readPlusResultLen = minResultLen + 4 + 4

	// dataSegmentLen is the length in bytes of a data segment without its data. holeSegmentLen
	// is the length of a hole.
	dataSegmentLen = 4 + 8 + 4
	holeSegmentLen = 4 + 8 + 8

	// minHole is the minimum length in bytes of a hole before which data is truncated: reading
	// zeros costs less than another call. Only the first hole after data counts, so that a
	// READ_PLUS queries the file system at most three times.
	minHole = 64 << 10

	// maxInlineData is the maximum length in bytes of data sent outside a Write chunk, which
	// READ_PLUS must not use.
	maxInlineData = 4 << 10
)

// serveReadPlus implements READ_PLUS (RFC 7862, Section 15.10). It returns one segment within
// the requested range: a hole if the file system reports one, otherwise data.
func serveReadPlus(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	attr, f, status := x.beginRead(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	defer finishFile(f)
	if a.Count == 0 || a.Offset >= attr.Size {
		if _, _, err := x.readAt(ctx, f, &nfs4.ReadArgs{}, nil); err != nil { // checks the rights
			return x.toStatus(err)
		}
		res := nfs4.ReadPlusRes{EOF: a.Offset >= attr.Size}
		x.out = res.AppendTo(x.out)
		return nfs4.OK
	}
	end := a.Offset + min(uint64(a.Count), attr.Size-a.Offset)
	hole, segmentEnd, err := x.nextSegment(ctx, f, &attr, a.Offset, end)
	switch {
	case err != nil:
		return x.toStatus(err)
	case hole:
		res := nfs4.ReadPlusRes{EOF: segmentEnd >= attr.Size, N: 1}
		part := nfs4.Segment{What: nfs4.ContentHole, Offset: a.Offset, Length: segmentEnd - a.Offset}
		x.out = part.AppendTo(res.AppendTo(x.out))
		return nfs4.OK
	}
	if a.Count = uint32(segmentEnd - a.Offset); len(x.call.ItemLimits) > 0 {
		return x.readPlusInline(ctx, f, &a)
	}
	return x.readPlusItem(ctx, f, &a)
}

// nextSegment reports whether the range from off to end in the current file starts with a hole,
// and where that hole or data ends. end must not be after the file's end. A file that occupies
// as much storage as its size has no hole.
func (x *compound) nextSegment(ctx context.Context, f *exportset.File, a *vfs.Attr, off, end uint64) (hole bool, segmentEnd uint64, err error) {
	if x.current.use.Export.Spacer == nil || a.Used >= a.Size {
		return false, end, nil
	}
	data, _, err := x.seekContent(ctx, f, a, off, false)
	switch {
	case err != nil:
		return false, end, ignoreNXIO(err)
	case data >= end:
		return true, end, nil
	case data-off >= minHole:
		return true, data, nil
	}
	start, _, err := x.seekContent(ctx, f, a, data, true)
	if err != nil || start >= end {
		return false, end, ignoreNXIO(err)
	}
	data, _, err = x.seekContent(ctx, f, a, start, false)
	if err == nil && (data >= end || data-start >= minHole) {
		end = start
	}
	return false, end, ignoreNXIO(err)
}

// readPlusItem reads into a data item, which is sent inline: the call has no Write chunk.
func (x *compound) readPlusItem(ctx context.Context, f *exportset.File, a *nfs4.ReadArgs) nfs4.Status {
	n := x.server.exports.ReadCount(a.Offset, a.Count, x.bytesLeft()-readPlusResultLen-dataSegmentLen)
	read := &x.results.read
	status := nfs4.OK
	if x.mapItem(ctx, f, a, n, truncateReadPlus) {
		status = read.Status
	} else {
		status = x.readItem(ctx, f, a, n)
	}
	if status != nfs4.OK {
		return status
	}
	x.out = appendSegment(x.out, read.EOF, a.Offset, int(read.Count))
	x.current.use.CountData(int(read.Count), 0)
	x.finishItem(int(read.Count))
	return nfs4.OK
}

// truncateReadPlus is the Reply's Cut for a READ_PLUS with one data segment. A segment without
// bytes means that the file ends there.
func truncateReadPlus(head []byte, n int, err error) []byte {
	return truncateData(head, len(head)-(readPlusResultLen-4)-dataSegmentLen, n, err)
}

// readPlusInline reads into the results: a data item would go into the call's Write chunk (RFC
// 8267, Section 6.1).
func (x *compound) readPlusInline(ctx context.Context, f *exportset.File, a *nfs4.ReadArgs) nfs4.Status {
	n := x.server.exports.ReadCount(a.Offset, min(a.Count, maxInlineData), x.bytesLeft()-readPlusResultLen-dataSegmentLen)
	at := len(x.out)
	x.out = appendSegment(x.out, false, a.Offset, 0)
	from := len(x.out)
	x.out = slices.Grow(x.out, n+3)
	got, eof, err := x.readAt(ctx, f, a, x.out[from:from+n])
	if err != nil {
		x.out = x.out[:at]
		return x.fileStatus(ctx, err)
	}
	appendSegment(x.out[:at], eof, a.Offset, got)
	x.out = append(x.out[:from+got], make([]byte, xdr.Pad(got))...)
	return nfs4.OK
}

// appendSegment appends the results with a data segment, up to the data's length.
func appendSegment(b []byte, eof bool, off uint64, n int) []byte {
	res := nfs4.ReadPlusRes{EOF: eof, N: 1}
	b = xdr.AppendUint32(res.AppendTo(b), uint32(nfs4.ContentData))
	return xdr.AppendUint32(xdr.AppendUint64(b, off), uint32(n))
}

// ignoreNXIO ignores the error for a file that has become shorter: the range counts as data,
// which a read then finds missing.
func ignoreNXIO(err error) error {
	if errors.Is(err, syscall.ENXIO) {
		return nil
	}
	return err
}
