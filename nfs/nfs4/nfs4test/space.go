package nfs4test

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

func allocateOp(id nfs4.StateID, off, n uint64) op {
	return op{nfs4.OpAllocate, &nfs4.RangeArgs{StateID: id, Offset: off, Length: n}, statusRes()}
}

func deallocateOp(id nfs4.StateID, off, n uint64) op {
	return op{nfs4.OpDeallocate, &nfs4.RangeArgs{StateID: id, Offset: off, Length: n}, statusRes()}
}

func seekOp(id nfs4.StateID, off uint64, what nfs4.Content, res *nfs4.SeekRes) op {
	return op{nfs4.OpSeek, &nfs4.SeekArgs{StateID: id, Offset: off, What: what}, res}
}

func readPlus(id nfs4.StateID, off uint64, count uint32, res *contents) op {
	return op{nfs4.OpReadPlus, &nfs4.ReadArgs{StateID: id, Offset: off, Count: count}, res}
}

func adviseOp(id nfs4.StateID, res *nfs4.IOAdviseRes, hints ...nfs4.Advice) op {
	return op{nfs4.OpIOAdvise, &nfs4.IOAdviseArgs{StateID: id, Hints: nfs4.BitmapOf(hints...)}, res}
}

// contents holds the results of READ_PLUS, with the segments.
type contents struct {
	nfs4.ReadPlusRes
	segments []nfs4.Segment
}

func (c *contents) readSegments(r *xdr.Reader) {
	c.segments = nil
	for range c.N {
		var part nfs4.Segment
		part.Decode(r)
		part.Data = slices.Clone(part.Data)
		c.segments = append(c.segments, part)
	}
}

// bytesFrom returns the file content that the segments describe. They must be
// contiguous, and begin at or before the offset.
func (c *contents) bytesFrom(t *T, off uint64) []byte {
	var b []byte
	for i, part := range c.segments {
		if i == 0 {
			require.LessOrEqual(t, part.Offset, off, "RFC 7862, 15.10.3: the first segment")
			off = part.Offset
		}
		require.Equal(t, off+uint64(len(b)), part.Offset, "RFC 7862, 15.10.3: segments are contiguous")
		b = append(b, part.Data...)
		b = append(b, make([]byte, part.Length)...)
	}
	return b
}

// block is a multiple of the block size of every file system.
const block = 64 << 10

// newSparseFile creates a file with data in its first and third block. The last one
// is short.
func (t *T) newSparseFile(name string) *openedFile {
	f := t.newFile(name, strings.Repeat("x", block/2))
	t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, block/2, nfs4.FileSync, strings.Repeat("y", block/2), new(nfs4.WriteRes)))
	t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 2*block, nfs4.FileSync, "0123456789", new(nfs4.WriteRes)))
	return f
}

// eachNonRegular runs check for an object of each type except a regular file.
func (t *T) eachNonRegular(check func(fh nfs4.FH)) {
	t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
		if kind != nfs4.TypeReg {
			check(fh)
		}
	})
}

// readFile returns the content of a short file.
func (t *T) readFile(f *openedFile) string {
	var res nfs4.ReadRes
	t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, block/2, &res))
	return string(res.Data)
}

// space are scenarios for ALLOCATE, DEALLOCATE, SEEK, READ_PLUS and IO_ADVISE.
var space = []Scenario{
	{Name: "ALLOCATE", By: "RFC 7862, 15.1.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.1-4, R7862-15.1-5
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(f.fh), allocateOp(f.id, 0, 2))
		assert.EqualValues(t, 4, t.getAttrs(f.fh, nfs4.AttrSize).Size)
		t.expectStatus(nfs4.OK, putFH(f.fh), allocateOp(f.id, 2, 8))
		assert.Equal(t, "data\x00\x00\x00\x00\x00\x00", t.readFile(f))
		used := t.getAttrs(f.fh, nfs4.AttrSpaceUsed).SpaceUsed
		t.expectStatus(nfs4.OK, putFH(f.fh), allocateOp(f.id, 10, 4*block))
		a := t.getAttrs(f.fh, nfs4.AttrSpaceUsed, nfs4.AttrSize)
		assert.EqualValues(t, 10+4*block, a.Size)
		assert.Greater(t, a.SpaceUsed, used)
	}},
	{Name: "ALLOCATE of a range that no file has", By: "RFC 7862, 15.1.3 and 11.2", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.1-6, R7862-3.1-1
		f := t.newFile("f", "data")
		for _, r := range [][2]uint64{{0, 0}, {math.MaxUint64, 2}, {1, math.MaxUint64}, {math.MaxInt64, 5}, {0, math.MaxInt64}} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrInval, nfs4.ErrFBig, nfs4.ErrNoSpc}, putFH(f.fh), allocateOp(f.id, r[0], r[1]))
			assert.EqualValues(t, 4, t.getAttrs(f.fh, nfs4.AttrSize).Size, "it fails as a whole")
		}
	}},
	{Name: "DEALLOCATE of a range that wraps around", By: "RFC 7862, 15.4.3 and 11.2", Since: nfs4.Minor2, run: func(t *T) {
		f := t.newFile("f", "data")
		for _, r := range [][2]uint64{{2, 0}, {2, math.MaxUint64}, {math.MaxUint64, 4}, {3, math.MaxUint64 - 2}} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrInval, nfs4.ErrFBig}, putFH(f.fh), deallocateOp(f.id, r[0], r[1]))
			assert.Equal(t, "data", t.readFile(f))
		}
	}},
	{Name: "ALLOCATE and DEALLOCATE of what is no file", By: "RFC 7862, 15.1.3 and 15.4.3", Linux: "NFS4ERR_INVAL or another for some", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.1-1, R7862-15.4-1
		t.eachNonRegular(func(fh nfs4.FH) {
			t.expectStatus(nfs4.ErrWrongType, putFH(fh), allocateOp(nfs4.StateID{}, 0, 10))
			t.expectStatus(nfs4.ErrWrongType, putFH(fh), deallocateOp(nfs4.StateID{}, 0, 10))
		})
		t.expectStatus(nfs4.ErrWrongType, putRootFH(), allocateOp(nfs4.StateID{}, 0, 10))
	}},
	{Name: "ALLOCATE and DEALLOCATE with each kind of stateid", By: "RFC 7862, 15.1.3 and 15.4.3: as for WRITE", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.1-2, R7862-15.4-5
		f := t.newFile("f", "0123456789")
		other := t.newFile("other", "")
		s := t.newClient().newSession().completeReclaim()
		readOnly := t.openAs(s, "f", "reader", nfs4.ShareRead, 0)
		for _, change := range []func(id nfs4.StateID, off, n uint64) op{allocateOp, deallocateOp} {
			s.expectStatus(nfs4.ErrOpenMode, putFH(f.fh), change(readOnly.id, 0, 5))
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), change(other.id, 0, 5))
			t.expectStatus(nfs4.OK, putFH(f.fh), change(nfs4.AnonymousStateID, 0, 5))
		}
		assert.Equal(t, "\x00\x00\x00\x00\x0056789", t.readFile(f))
	}},
	{Name: "DEALLOCATE", By: "RFC 7862, 15.4.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.4-2, R7862-15.4-3, R7862-15.4-4, R7862-15.4-6
		f := t.newFile("f", strings.Repeat("x", block/2))
		for n := uint64(1); n < 8; n++ {
			t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, n*block/2, nfs4.FileSync, strings.Repeat("x", block/2), new(nfs4.WriteRes)))
		}
		before := t.getAttrs(f.fh, nfs4.AttrSize, nfs4.AttrSpaceUsed, nfs4.AttrChange)
		t.expectStatus(nfs4.OK, putFH(f.fh), deallocateOp(f.id, 3, 3*block))
		after := t.getAttrs(f.fh, nfs4.AttrSize, nfs4.AttrSpaceUsed, nfs4.AttrChange)
		assert.Equal(t, before.Size, after.Size)
		assert.LessOrEqual(t, after.SpaceUsed, before.SpaceUsed-2*block)
		assert.NotEqual(t, before.Change, after.Change)
		assert.Equal(t, "xxx"+strings.Repeat("\x00", block/2-3), t.readFile(f))
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 3*block, 6, &res))
		assert.Equal(t, "\x00\x00\x00xxx", string(res.Data))
		t.expectStatus(nfs4.OK, putFH(f.fh), deallocateOp(f.id, 4*block-1, block))
		t.expectStatus(nfs4.OK, putFH(f.fh), deallocateOp(f.id, 40*block, block))
		assert.EqualValues(t, 4*block, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "SEEK", By: "RFC 7862, 15.11.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.11-4
		f := t.newSparseFile("f")
		dense := t.newFile("dense", "data")
		for _, tt := range []struct {
			f    *openedFile
			off  uint64
			what nfs4.Content
			want uint64
			eof  bool
		}{
			{f, 0, nfs4.ContentData, 0, false},
			{f, 5, nfs4.ContentHole, block, false},
			{f, block + 7, nfs4.ContentHole, block + 7, false},
			{f, block, nfs4.ContentData, 2 * block, false},
			{dense, 0, nfs4.ContentHole, 4, true},
			{dense, 3, nfs4.ContentHole, 4, true},
			{dense, 3, nfs4.ContentData, 3, false},
		} {
			var res nfs4.SeekRes
			t.expectStatus(nfs4.OK, putFH(tt.f.fh), seekOp(tt.f.id, tt.off, tt.what, &res))
			assert.Equal(t, tt.want, res.Offset, "from %d", tt.off)
			assert.Equal(t, tt.eof, res.EOF, "from %d", tt.off)
		}
	}},
	{Name: "SEEK beyond the end", By: "RFC 7862, 15.11.3: NFS4ERR_NXIO", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.11-2
		f, empty := t.newFile("f", "data"), t.newFile("empty", "")
		for what := nfs4.ContentData; what <= nfs4.ContentHole; what++ {
			for _, off := range []uint64{4, 5, 1 << 40, math.MaxInt64} {
				t.expectStatus(nfs4.ErrNXIO, putFH(f.fh), seekOp(f.id, off, what, new(nfs4.SeekRes)))
			}
			t.expectStatus(nfs4.ErrNXIO, putFH(empty.fh), seekOp(empty.id, 0, what, new(nfs4.SeekRes)))
			t.expectStatus(nfs4.OK, putFH(f.fh), seekOp(f.id, 3, what, new(nfs4.SeekRes)))
		}
	}},
	{Name: "SEEK of data in the last hole", By: "RFC 7862, 15.11.3: NFS4_OK and sr_eof", Linux: "NFS4ERR_NXIO", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.11-3
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(f.id, sizeAttrs(4*block)))
		var res nfs4.SeekRes
		t.expectStatus(nfs4.OK, putFH(f.fh), seekOp(f.id, 2*block, nfs4.ContentData, &res))
		assert.True(t, res.EOF)
	}},
	{Name: "SEEK of an unknown content", By: "RFC 7862, 11.2: NFS4ERR_UNION_NOTSUPP", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.11-5
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.ErrUnionNotSupp, putFH(f.fh), seekOp(f.id, 0, 2, new(nfs4.SeekRes)))
	}},
	{Name: "SEEK and READ_PLUS of what is no file", By: "RFC 7862, 15.10.3 and 15.11.3", Linux: "NFS4ERR_INVAL, as for READ", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.10-8
		t.checkWrongTypes(seekOp(nfs4.StateID{}, 0, nfs4.ContentHole, new(nfs4.SeekRes)), readPlus(nfs4.StateID{}, 0, 10, new(contents)))
	}},
	{Name: "SEEK and READ_PLUS with each kind of stateid", By: "RFC 7862, 15.10.3 and 15.11.3: as for READ", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.11-6
		f := t.newFile("f", "0123456789")
		other := t.newFile("other", "x")
		s := t.newClient().newSession().completeReclaim()
		writeOnly := t.openAs(s, "closed", "writer", nfs4.ShareWrite, 0)
		for _, get := range []func(id nfs4.StateID) op{
			func(id nfs4.StateID) op { return seekOp(id, 0, nfs4.ContentHole, new(nfs4.SeekRes)) },
			func(id nfs4.StateID) op { return readPlus(id, 0, 10, new(contents)) },
		} {
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), get(other.id))
			t.expectStatus(nfs4.OK, putFH(f.fh), get(nfs4.AnonymousStateID))
			t.expectStatus(nfs4.OK, putFH(f.fh), get(nfs4.BypassStateID))
		}
		s.expectStatus(nfs4.OK, putFH(writeOnly.fh), closeFile(writeOnly.id))
		s.expectStatus(nfs4.ErrBadStateID, putFH(writeOnly.fh), seekOp(writeOnly.id, 0, nfs4.ContentHole, new(nfs4.SeekRes)))
	}},
	{Name: "READ_PLUS", By: "RFC 7862, 15.10.3", Linux: "from a hole on into data it returns other bytes than the file has", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.10-2, R7862-6.2.1-1
		f := t.newSparseFile("f")
		whole := slices.Concat(bytes.Repeat([]byte("x"), block/2), bytes.Repeat([]byte("y"), block/2), make([]byte, block), []byte("0123456789"))
		for _, count := range []uint32{5, 1000, block / 2, block - 1} {
			for off := uint64(0); off < uint64(len(whole)); {
				var res contents
				t.expectStatus(nfs4.OK, putFH(f.fh), readPlus(f.id, off, count, &res))
				got := res.bytesFrom(t, off)
				skip := off - res.segments[0].Offset
				require.Greater(t, uint64(len(got)), skip, "at %d", off)
				got = got[skip:]
				require.True(t, bytes.Equal(whole[off:off+uint64(len(got))], got), "%d bytes from %d", len(got), off)
				assert.Equal(t, off+uint64(len(got)) == uint64(len(whole)), res.EOF, "at %d", off)
				if count == 5 {
					off += 7919
				} else {
					off += uint64(len(got))
				}
			}
		}
	}},
	{Name: "READ_PLUS returns holes", By: "RFC 7862, 15.10.3: a server supports data and holes", Linux: "it returns only data before Linux 6.2", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.10-3
		f := t.newSparseFile("f")
		var res contents
		t.expectStatus(nfs4.OK, putFH(f.fh), readPlus(f.id, block, block/2, &res))
		require.Len(t, res.segments, 1)
		assert.Equal(t, nfs4.ContentHole, res.segments[0].What)
	}},
	{Name: "READ_PLUS at the edges", By: "RFC 7862, 15.10.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.10-5
		f, empty := t.newFile("f", "0123456789"), t.newFile("empty", "")
		for _, tt := range []struct {
			f     *openedFile
			off   uint64
			count uint32
			want  string
			eof   bool
		}{
			{f, 0, 10, "0123456789", true},
			{f, 0, 9, "012345678", false},
			{f, 5, 100, "56789", true},
			{f, 3, 0, "", false},
			{f, 10, 0, "", true},
			{f, 10, 5, "", true},
			{f, 1 << 40, 5, "", true},
			{f, math.MaxUint64, 5, "", true},
			{empty, 0, 5, "", true},
		} {
			var res contents
			t.expectStatus(nfs4.OK, putFH(tt.f.fh), readPlus(tt.f.id, tt.off, tt.count, &res))
			assert.Equal(t, tt.want, string(res.bytesFrom(t, tt.off)), "%d from %d", tt.count, tt.off)
			assert.Equal(t, tt.eof, res.EOF, "%d from %d", tt.count, tt.off)
		}
	}},
	{Name: "READ_PLUS before other operations", By: "RFC 8881, 16.2.3", Since: nfs4.Minor2, run: func(t *T) {
		f := t.newFile("f", "0123456789")
		var one, two contents
		var data nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), readPlus(f.id, 0, 3, &one), readOp(f.id, 3, 2, &data), readPlus(f.id, 5, 100, &two))
		assert.Equal(t, "012", string(one.segments[0].Data))
		assert.Equal(t, "34", string(data.Data))
		assert.Equal(t, "56789", string(two.segments[0].Data))
	}},
	{Name: "IO_ADVISE", By: "RFC 7862, 15.5.3", Linux: "NFS4ERR_NOTSUPP", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.5-1, R7862-15.5-2
		f := t.newFile("f", "0123456789")
		for hint := nfs4.AdviseNormal; hint <= nfs4.AdviseInitProximity; hint++ {
			var res nfs4.IOAdviseRes
			t.expectStatus(nfs4.OK, putFH(f.fh), adviseOp(f.id, &res, hint))
			asked := nfs4.BitmapOf(hint, nfs4.AdviseNormal)
			other := res.Hints.Without(asked)
			assert.False(t, res.Hints.Empty())
			assert.True(t, other.Empty(), "no hint that was not given")
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), adviseOp(f.id, new(nfs4.IOAdviseRes), nfs4.AdviseSequential, nfs4.AdviseRandom))
		t.expectStatus(nfs4.OK, putFH(f.fh), adviseOp(f.id, new(nfs4.IOAdviseRes), 77))
	}},
	{Name: "operations of 4.2 that are optional", By: "RFC 7862, 13: NFS4ERR_NOTSUPP", Since: nfs4.Minor2, Linux: "it knows LAYOUTERROR and COPY_NOTIFY", run: func(t *T) { // R7862-13-3, R7862-15.3-1, R7862-15.3-2, R7862-15.6-1, R7862-15.7-1, R7862-15.12-1
		f := t.newFile("f", "data")
		for _, num := range []nfs4.Op{nfs4.OpCopyNotify, nfs4.OpLayoutError, nfs4.OpLayoutStats, nfs4.OpWriteSame} {
			args := raw(make([]byte, 200))
			t.expectStatus(nfs4.ErrNotSupp, putFH(f.fh), op{num, &args, statusRes()})
		}
	}},
	{Name: "operations of 4.2 in 4.1", By: "RFC 7862, 13; RFC 8178, 8.2.1: they are illegal", run: func(t *T) { // R7862-2-2
		if t.Minor > nfs4.Minor1 {
			return
		}
		f := t.newFile("f", "data")
		for num := nfs4.OpAllocate; num <= nfs4.OpClone; num++ {
			args := raw(make([]byte, 200))
			t.expectStatus(nfs4.ErrOpIllegal, putFH(f.fh), op{num, &args, statusRes()})
		}
	}},
}
