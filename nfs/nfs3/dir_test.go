package nfs3

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// readList decodes the results of READDIR or READDIRPLUS.
func readList(r *xdr.Reader, plus bool) (res DirRes, entries []Entry, eof bool) {
	res.Decode(r)
	d := DirReader{R: r, Plus: plus}
	for e := (Entry{}); res.Status == OK && d.Next(&e); {
		entries = append(entries, e)
	}
	return res, entries, d.EOF
}

var lists = []struct {
	file  string
	plus  bool
	names []string
}{
	{"readdir-res", false, []string{".", "\xffoooo"}},
	{"readdirplus-res", true, []string{".", "..", "dir", "small.txt"}},
	{"eth-readdirplus-res", true, []string{".", "..", "small.txt", "dir"}},
}

func TestList(t *testing.T) {
	for _, tt := range lists {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			r := xdr.NewReader(wire)
			res, entries, eof := readList(&r, tt.plus)
			require.NoError(t, r.Done())
			assert.True(t, eof)
			var names []string
			for _, e := range entries {
				names = append(names, string(e.Name))
			}
			assert.Equal(t, tt.names, names)

			resok := uint32(len(wire) - 4) // without the status
			assert.Equal(t, wire, writeList(res, entries, tt.plus, resok, 1<<20), "exactly large enough")
			short := writeList(res, entries, tt.plus, resok-1, 1<<20)
			r = xdr.NewReader(short)
			_, fewer, eof := readList(&r, tt.plus)
			require.NoError(t, r.Done())
			assert.Len(t, fewer, len(entries)-1, "one byte less")
			assert.False(t, eof, "the directory has more entries")

			for n := range wire {
				r := xdr.NewReader(wire[:n])
				readList(&r, tt.plus)
				assert.Error(t, r.Err(), "cut after %d bytes", n)
			}
		})
	}
}

// writeList returns nil for NFS3ERR_TOOSMALL.
func writeList(res DirRes, entries []Entry, plus bool, maxCount, dirCount uint32) []byte {
	w := NewDirWriter(nil, plus, maxCount, dirCount)
	for i := range entries {
		if !w.Add(&entries[i]) {
			break
		}
	}
	if w.TooSmall() {
		return nil
	}
	return w.Finish(&res.DirAttr, res.Verf, true)
}

func manyEntries() []Entry {
	var entries []Entry
	for i := range 14 {
		e := Entry{FileID: uint64(i), Name: fmt.Appendf(nil, "%0*d", 3*i+1, i), Cookie: uint64(i + 1)}
		if i%2 == 0 {
			e.Attr = PostOpAttr{OK: true, Attr: Attr{Type: TypeReg, FileID: e.FileID}}
		}
		if i%3 == 0 {
			e.Handle = make(FH, 4*i)
		}
		entries = append(entries, e)
	}
	return entries
}

// TestListSizes checks that results respect all size limits (R8267-4.1-1), and
// contain as many entries as the sizes allow.
func TestListSizes(t *testing.T) {
	entries := manyEntries()
	res := DirRes{DirAttr: PostOpAttr{OK: true, Attr: Attr{Type: TypeDir}}, Verf: 5}
	for _, plus := range []bool{false, true} {
		last := 0
		for maxCount := range uint32(2400) {
			wire := writeList(res, entries, plus, maxCount, 1<<20)
			if wire == nil {
				assert.Zero(t, last)
				continue
			}
			require.LessOrEqual(t, len(wire), MaxResult(ProcReadDir, maxCount))
			r := xdr.NewReader(wire)
			got, read, eof := readList(&r, plus)
			require.NoError(t, r.Done())
			require.Equal(t, res, got)
			require.Equal(t, len(read) == len(entries), eof)
			require.GreaterOrEqual(t, len(read), last)
			last = len(read)
			if last < len(entries) {
				_, next := entries[last].wireSizes(plus)
				require.Greater(t, len(wire)+next, MaxResult(ProcReadDir, maxCount), "space for one more")
			}
		}
		assert.Len(t, entries, last)
	}
}

func TestDirCount(t *testing.T) {
	entries := manyEntries()
	for dirCount := range uint32(800) {
		w := NewDirWriter(nil, true, 1<<20, dirCount)
		sum := 0
		for i := range entries {
			names := 24 + (len(entries[i].Name)+3)/4*4 // as in READDIR
			if !w.Add(&entries[i]) {
				require.Greater(t, sum+names, int(dirCount))
				break
			}
			sum += names
			require.LessOrEqual(t, sum, int(dirCount))
		}
		require.Equal(t, dirCount < 28, w.TooSmall())
	}
}

func TestListTooSmall(t *testing.T) {
	w := NewDirWriter(nil, false, dirHeadLen+dirTailLen-1, 0)
	assert.True(t, w.TooSmall(), "not even an empty list")
	w = NewDirWriter(nil, false, dirHeadLen+dirTailLen, 0)
	assert.False(t, w.TooSmall())
	assert.False(t, w.Add(&Entry{Name: []byte("a")}))
	assert.True(t, w.TooSmall())
}

// TestListWithoutAttr checks that the entries move up if the directory has no
// attributes.
func TestListWithoutAttr(t *testing.T) {
	entries := manyEntries()
	want := DirRes{Verf: 9}
	head := []byte("head")
	w := NewDirWriter(head, true, 1<<20, 1<<20)
	for i := range entries {
		require.True(t, w.Add(&entries[i]))
	}
	wire := w.Finish(&want.DirAttr, want.Verf, false)
	require.Equal(t, head, wire[:4])
	r := xdr.NewReader(wire[4:])
	got, read, eof := readList(&r, true)
	require.NoError(t, r.Done())
	assert.Equal(t, want, got)
	assert.Equal(t, entries, read)
	assert.False(t, eof)
}

func TestListFailure(t *testing.T) {
	want := DirRes{Status: ErrBadCookie, DirAttr: PostOpAttr{OK: true, Attr: Attr{Type: TypeDir}}}
	r := xdr.NewReader(want.AppendTo(nil))
	got, entries, _ := readList(&r, true)
	require.NoError(t, r.Done())
	assert.Equal(t, want, got)
	assert.Empty(t, entries)
}

// FuzzList checks that a decoded list survives encoding and decoding, except
// for its end.
func FuzzList(f *testing.F) {
	for _, tt := range lists {
		f.Add(wiretest.Hex(f, "testdata/"+tt.file+".hex"), tt.plus)
	}
	f.Fuzz(func(t *testing.T, wire []byte, plus bool) {
		r := xdr.NewReader(wire)
		res, entries, _ := readList(&r, plus)
		if r.Err() != nil || res.Status != OK {
			return
		}
		r = xdr.NewReader(writeList(res, entries, plus, 1<<30, 1<<30))
		again, read, eof := readList(&r, plus)
		require.NoError(t, r.Done())
		assert.Equal(t, res, again)
		assert.Equal(t, entries, read)
		assert.True(t, eof)
	})
}
