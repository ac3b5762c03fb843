package nfsserver

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func makeFiles(g *testServer, n int) []string {
	names := []string{".", "..", "f", "d", "l"}
	for i := range n {
		name := fmt.Sprintf("%0*d", 1+i%60, i)
		names = append(names, name)
		g.makeFile(name, nil)
	}
	return names
}

// dirArgs returns the arguments for READDIR or READDIRPLUS.
func dirArgs(dir nfs3.FH, plus bool, cookie, verf uint64, count uint32) (uint32, message) {
	if plus {
		return nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: 1 << 20, MaxCount: count}
	}
	return nfs3.ProcReadDir, &nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: count}
}

// TestList reads a directory in pieces, and checks that each name comes exactly
// once.
func TestList(t *testing.T) {
	g, _, fh := newScene(t)
	want := makeFiles(g, 100)
	for _, plus := range []bool{false, true} {
		for _, count := range []uint32{400, 1000, 4096, 1 << 30} {
			t.Run(fmt.Sprintf("plus=%v count=%d", plus, count), func(t *testing.T) {
				var names []string
				var cookie, verf uint64
				res := &dirListing{plus: plus}
				for !res.EOF {
					proc, args := dirArgs(fh[vfs.TypeDir], plus, cookie, verf, count)
					g.callNFS(proc, args, res)
					require.Equal(t, nfs3.OK, res.Status)
					require.True(t, res.DirAttr.OK)
					for _, e := range res.Entries {
						names = append(names, string(e.Name))
						if plus {
							require.Equal(t, g.handleOf(e.FileID), e.Handle)
							require.Equal(t, e.FileID, e.Attr.Attr.FileID)
						}
						cookie = e.Cookie
					}
					verf = res.Verf
				}
				assert.Equal(t, want, names)
			})
		}
	}
}

// TestListSize checks that results respect count, the reply's maximum size and rtmax.
func TestListSize(t *testing.T) {
	g, _, fh := newScene(t, func(c *Config) { c.MaxPayload = 4096 })
	makeFiles(g, 100)
	for _, plus := range []bool{false, true} {
		for _, tt := range []struct{ count, maxReply, most int }{
			{1000, 1 << 20, 1000}, {1 << 20, 2000, 2000 - 24 - 4}, {1 << 30, 1 << 20, 4096},
		} {
			g.maxReply = tt.maxReply
			proc, args := dirArgs(fh[vfs.TypeDir], plus, 0, 0, uint32(tt.count))
			head, _ := g.serveCall(args.AppendTo(g.callHeader(nfs3.Program, 3, proc)), nil)
			stat, results := g.parseAccepted(head)
			require.Zero(t, stat)
			assert.LessOrEqual(t, len(results)-4, tt.most)
			assert.Greater(t, len(results)-4, tt.most-300, "the reply uses its size")
		}
	}
}

// TestListReply checks that the results fit into the reply, for any maximum size.
func TestListReply(t *testing.T) {
	g, _, fh := newScene(t)
	makeFiles(g, 10)
	for _, plus := range []bool{false, true} {
		res := &dirListing{plus: plus}
		for g.maxReply = 24 + nfs3.MaxResult(nfs3.ProcReadDir, 0); g.maxReply < 700; g.maxReply++ {
			proc, args := dirArgs(fh[vfs.TypeDir], plus, 0, 0, 4096)
			g.callNFS(proc, args, res)
			if res.Status != nfs3.ErrTooSmall {
				require.Equal(t, nfs3.OK, res.Status)
				require.NotEmpty(t, res.Entries)
			}
		}
	}
}

func TestDirCount(t *testing.T) {
	g, _, fh := newScene(t)
	makeFiles(g, 100)
	res := &dirListing{plus: true}
	g.callNFS(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: fh[vfs.TypeDir], DirCount: 28 * 4, MaxCount: 1 << 20}, res)
	assert.Len(t, res.Entries, 4)
	assert.False(t, res.EOF)
}

func TestListTooSmall(t *testing.T) {
	g, _, fh := newScene(t)
	for _, plus := range []bool{false, true} {
		for _, count := range []uint32{0, 50, 104, 130} {
			res := &dirListing{plus: plus}
			proc, args := dirArgs(fh[vfs.TypeDir], plus, 0, 0, count)
			g.callNFS(proc, args, res)
			assert.Equal(t, nfs3.ErrTooSmall, res.Status, "%d", count)
			assert.True(t, res.DirAttr.OK)
		}
	}
}

func TestListCookie(t *testing.T) {
	g, _, fh := newScene(t)
	for _, plus := range []bool{false, true} {
		res := &dirListing{plus: plus}
		proc, args := dirArgs(fh[vfs.TypeDir], plus, 2, 1, 4096)
		g.callNFS(proc, args, res)
		assert.Equal(t, nfs3.ErrBadCookie, res.Status)
		assert.True(t, res.DirAttr.OK)
		proc, args = dirArgs(fh[vfs.TypeDir], plus, 0, 1, 4096)
		g.callNFS(proc, args, res)
		assert.Equal(t, nfs3.OK, res.Status, "a listing from the start needs no verifier")
		proc, args = dirArgs(fh[vfs.TypeDir], plus, 1<<40, res.Verf, 4096)
		g.callNFS(proc, args, res)
		assert.Equal(t, nfs3.OK, res.Status)
		assert.Empty(t, res.Entries)
		assert.True(t, res.EOF, "behind the last entry")
		proc, args = dirArgs(fh[vfs.TypeReg], plus, 0, 0, 4096)
		g.callNFS(proc, args, res)
		assert.Equal(t, nfs3.ErrNotDir, res.Status)
	}
}

// A dirListing holds READDIR or READDIRPLUS results.
type dirListing struct {
	Status  nfs3.Status
	DirAttr nfs3.PostOpAttr
	Verf    uint64
	Entries []nfs3.Entry
	EOF     bool
	plus    bool
}

func (l *dirListing) AppendTo(b []byte) []byte { panic("results are only read here") }

func (l *dirListing) Decode(r *xdr.Reader) {
	var head nfs3.DirRes
	head.Decode(r)
	l.Status, l.DirAttr, l.Verf = head.Status, head.DirAttr, head.Verf
	if head.Status != nfs3.OK {
		return
	}
	d := nfs3.DirReader{R: r, Plus: l.plus}
	for e := (nfs3.Entry{}); d.Next(&e); {
		l.Entries = append(l.Entries, e)
	}
	l.EOF = d.EOF
}
