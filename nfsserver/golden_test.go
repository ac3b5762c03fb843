package nfsserver

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// The file handles that knfsd gave the client in siw-lo-nfs3.pcap, and the corresponding
// objects in a scene.
var recorded = []struct {
	fh   string
	kind vfs.Type
}{
	{"\x01\x00\x01\x00\x00\x00\x00\x00", vfs.TypeDir},                                                 // the root
	{"\x01\x00\x01\x01\x00\x00\x00\x00\x2a\x91\x06\x9b\x03\x00\x00\x00\x00\x00\x00\x00", vfs.TypeDir}, // dir
	{"\x01\x00\x01\x01\x00\x00\x00\x00\xf6\x0c\xa2\x14\x05\x00\x00\x00\x00\x00\x00\x00", vfs.TypeReg}, // big
	{"\x01\x00\x01\x01\x00\x00\x00\x00\xf3\x62\x70\x50\x02\x00\x00\x00\x00\x00\x00\x00", vfs.TypeReg}, // small.txt
}

// replayGolden returns a recorded call with this server's handles instead of knfsd's.
func replayGolden(call []byte, handles map[vfs.Type]nfs3.FH) []byte {
	for _, h := range recorded {
		old := xdr.AppendOpaque(nil, []byte(h.fh))
		call = bytes.ReplaceAll(call, old, xdr.AppendOpaque(nil, handles[h.kind]))
	}
	return call
}

// TestRecordedCalls serves a Linux client's recorded calls, and checks the replies as that
// client would.
func TestRecordedCalls(t *testing.T) {
	for _, tt := range []struct {
		file   string
		res    message
		want   nfs3.Status
		length int // length in bytes, if knfsd's results are known to have the same one
		check  func(t *testing.T, g *testServer, res message)
	}{
		{file: "getattr-call", res: new(nfs3.GetAttrRes), length: 88},
		{file: "setattr-call", res: new(nfs3.WccRes), length: 120},
		{file: "lookup-call", res: new(nfs3.LookupRes), length: 4 + 4 + 24 + 88 + 88, check: func(t *testing.T, g *testServer, res message) {
			assert.Equal(t, g.handleOf(sceneLink+1), res.(*nfs3.LookupRes).Object)
		}},
		{file: "access-call", res: new(nfs3.AccessRes), length: 96, check: func(t *testing.T, _ *testServer, res message) {
			assert.EqualValues(t, 0x1f, res.(*nfs3.AccessRes).Access)
		}},
		{file: "read-call", res: new(nfs3.ReadRes), check: func(t *testing.T, _ *testServer, res message) {
			assert.Equal(t, "content", string(res.(*nfs3.ReadRes).Data))
			assert.True(t, res.(*nfs3.ReadRes).EOF)
		}},
		{file: "write-call", res: new(nfs3.WriteRes), check: func(t *testing.T, _ *testServer, res message) {
			assert.EqualValues(t, 1<<18, res.(*nfs3.WriteRes).Count)
		}},
		{file: "create-call", res: new(nfs3.MakeRes)},
		{file: "symlink-call", res: new(nfs3.MakeRes)},
		{file: "remove-call", res: new(nfs3.WccRes), want: nfs3.ErrNoEnt},
		{file: "rename-call", res: new(nfs3.RenameRes)},
		{file: "readdirplus-call", res: &dirListing{plus: true}, check: func(t *testing.T, _ *testServer, res message) {
			assert.Len(t, res.(*dirListing).Entries, 6)
		}},
		{file: "fsstat-call", res: new(nfs3.FSStatRes)},
		{file: "fsinfo-call", res: new(nfs3.FSInfoRes)},
		{file: "pathconf-call", res: new(nfs3.PathConfRes)},
		{file: "commit-call", res: new(nfs3.CommitRes)},
	} {
		t.Run(tt.file, func(t *testing.T) {
			g, fs, handles := newScene(t)
			g.makeFile("big", nil)
			call := replayGolden(wiretest.Hex(t, "testdata/"+tt.file+".hex"), handles)
			var data []byte
			if tt.file == "write-call" {
				data = testPattern(1 << 18)
			}
			head, item := g.serveCall(call, data)
			assert.Equal(t, call[:4], head[:4], "xid")
			require.Zero(t, binary.BigEndian.Uint32(head[20:]), "accept_stat")
			g.decodeResults(head[24:], item, tt.res)
			assert.Equal(t, tt.want, resultStatus(tt.res))
			assert.EqualValues(t, exports.Nobody, fs.cred.UID, "root is squashed")
			if tt.length > 0 {
				assert.Len(t, head, 24+tt.length)
			}
			if tt.check != nil {
				tt.check(t, g, tt.res)
			}
		})
	}
	g := newTestServer(t, newMemFS())
	head, _ := g.serveCall(wiretest.Hex(t, "testdata/null-call.hex"), nil)
	assert.Len(t, head, 24)
}

// TestUnknownHandles checks that knfsd's handles are refused.
func TestUnknownHandles(t *testing.T) {
	g := newTestServer(t, newMemFS())
	for _, h := range recorded {
		var res nfs3.GetAttrRes
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: nfs3.FH(h.fh)}, &res)
		assert.Equal(t, nfs3.ErrBadHandle, res.Status)
	}
}
