package bridge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWork uses all procedures through the bridge, with data, names and links
// of lengths around the inline thresholds.
func TestWork(t *testing.T) {
	for _, inline := range []int{1024, 4096, 64 << 10} {
		t.Run(fmt.Sprint(inline), func(t *testing.T) {
			g := newTestBridge(t, bridgeOptions{inline: inline})
			f := mountOverTCP(t, g.addr)
			ctx := t.Context()
			require.NoError(t, f.MkdirAll(ctx, "a/b", 0o755))
			for _, around := range []int{0, 4, 500, inline - 600, inline - 300, inline, 1 << 20} {
				for _, size := range []int{around - 1, around, around + 1} {
					if size < 0 {
						continue
					}
					data := randomBytes(size, byte(size))
					file, err := f.Create(ctx, "a/file", 0o644)
					require.NoError(t, err)
					_, err = file.CopyFrom(ctx, bytes.NewReader(data), 0)
					require.NoError(t, err)
					here, err := os.ReadFile(filepath.Join(g.dir, "a/file"))
					require.NoError(t, err)
					require.True(t, bytes.Equal(data, here), size)
					there := make([]byte, size+1)
					n, err := file.ReadAt(ctx, there, 0)
					assert.Equal(t, io.EOF, err)
					require.True(t, bytes.Equal(data, there[:n]), size)
				}
			}
			for n := 1; n <= 4095; n += 273 { // with each padding
				text := strings.Repeat("t", n)
				name := fmt.Sprintf("a/%s%d", strings.Repeat("n", 200), n)
				require.NoError(t, f.Symlink(ctx, text, name))
				here, err := os.Readlink(filepath.Join(g.dir, name))
				require.NoError(t, err)
				require.Equal(t, text, here)
				there, err := f.Readlink(ctx, name)
				require.NoError(t, err)
				require.Equal(t, text, there)
			}
			require.NoError(t, f.Rename(ctx, "a/file", "a/b/file"))
			require.NoError(t, f.Link(ctx, "a/b/file", "a/b/again"))
			require.NoError(t, f.Remove(ctx, "a/b/file"))
			for i := range 300 {
				require.NoError(t, os.WriteFile(filepath.Join(g.dir, "a/b", fmt.Sprintf("%0200d", i)), nil, 0o600))
			}
			names := 0
			for _, err := range f.ReadDir(ctx, "a/b") {
				require.NoError(t, err)
				names++
			}
			assert.Equal(t, 301, names)
			_, err := f.Stat(ctx, "a/b/file")
			assert.ErrorIs(t, err, nfs3.ErrNoEnt)
			require.NoError(t, f.RemoveAll(ctx, "a"))
			left, err := os.ReadDir(g.dir)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// testCalls returns messages of all kinds, including broken ones, on an export with
// the given handle. None changes anything.
func testCalls(root nfs3.FH) map[string][]byte {
	handle := root.AppendTo(nil)
	badCred := encodeCall(1, nfs3.Program, 3, nfs3.ProcGetAttr, handle)
	badCred[24+3] = 77 // flavor
	longCred := encodeCall(1, nfs3.Program, 3, nfs3.ProcGetAttr, handle)
	binary.BigEndian.PutUint32(longCred[28:], 404)
	cut := encodeCall(1, nfs3.Program, 3, nfs3.ProcGetAttr, nil)
	version := encodeCall(1, nfs3.Program, 3, nfs3.ProcNull, nil)
	version[11] = 3
	list := (&nfs3.ReadDirArgs{Dir: root, Count: 1 << 20}).AppendTo(nil)
	plus := (&nfs3.ReadDirPlusArgs{Dir: root, DirCount: 1 << 20, MaxCount: 1<<32 - 1}).AppendTo(nil)
	return map[string][]byte{
		"NULL":                  encodeCall(1, nfs3.Program, 3, nfs3.ProcNull, nil),
		"GETATTR":               encodeCall(2, nfs3.Program, 3, nfs3.ProcGetAttr, handle),
		"READDIR":               encodeCall(3, nfs3.Program, 3, nfs3.ProcReadDir, list),
		"READDIRPLUS":           encodeCall(4, nfs3.Program, 3, nfs3.ProcReadDirPlus, plus),
		"stale handle":          encodeCall(5, nfs3.Program, 3, nfs3.ProcGetAttr, nfs3.FH("nonsense").AppendTo(nil)),
		"garbage":               encodeCall(6, nfs3.Program, 3, nfs3.ProcRead, []byte("garbage!")),
		"long garbage":          encodeCall(7, nfs3.Program, 3, nfs3.ProcWrite, randomBytes(1<<20, 1)),
		"handle cut":            encodeCall(8, nfs3.Program, 3, nfs3.ProcRead, handle[:7]),
		"trailing bytes":        encodeCall(9, nfs3.Program, 3, nfs3.ProcGetAttr, append(handle, 0, 0, 0, 0)),
		"unknown procedure":     encodeCall(10, nfs3.Program, 3, 99, handle),
		"NFS version 4":         encodeCall(11, nfs3.Program, 4, 1, handle),
		"NFS version 2":         encodeCall(12, nfs3.Program, 2, 1, handle),
		"NFSACL":                encodeCall(13, 100227, 3, 0, nil),
		"unknown program":       encodeCall(14, 1<<32-1, 1<<32-1, 1<<32-1, randomBytes(5000, 2)),
		"MOUNT, EXPORT":         encodeCall(15, mount3.Program, 3, mount3.ProcExport, nil),
		"MOUNT, unknown export": encodeCall(16, mount3.Program, 3, mount3.ProcMnt, xdr.AppendString(nil, "/nowhere")),
		"MOUNT version 1":       encodeCall(17, mount3.Program, 1, mount3.ProcMnt, xdr.AppendString(nil, "/x")),
		"unknown flavour":       badCred,
		"credential too long":   longCred,
		"cut in the credential": cut[:36],
		"RPC version 3":         version,
		"sealed":                withGSSCred(encodeCall(18, nfs3.Program, 3, nfs3.ProcRead, randomBytes(200, 3))),
	}
}

// withGSSCred replaces AUTH_SYS by RPCSEC_GSS.
func withGSSCred(msg []byte) []byte {
	msg[27] = byte(rpcmsg.AuthGSS)
	return msg
}

// TestSameBytes checks that the bridge's replies, rejections included, equal the
// server's replies without a bridge, byte for byte.
func TestSameBytes(t *testing.T) {
	g := newTestBridge(t, bridgeOptions{})
	for i := range 50 {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, fmt.Sprint(i)), nil, 0o644))
	}
	root := g.exportHandle()
	through, past := dialRaw(t, g.addr), dialRaw(t, serveTCP(t, g.mux))
	for name, msg := range testCalls(root) {
		t.Run(name, func(t *testing.T) {
			through.sendMessage(msg)
			past.sendMessage(msg)
			want := past.readReply()
			assert.Equal(t, want, through.readReply())
			assert.Equal(t, msg[:4], want[:4])
		})
	}
}

// TestPassedOn checks that the server receives the client's call unchanged
// except for the XID, credential and verifier included. Data travel apart.
func TestPassedOn(t *testing.T) {
	var s *recordingService
	g := newTestBridge(t, bridgeOptions{service: func(next oncrpc.Service) oncrpc.Service { s = &recordingService{Service: next}; return s }})
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "file"), nil, 0o644))
	root := g.exportHandle()
	c := dialRaw(t, g.addr)
	s.takeCalls()
	for name, msg := range testCalls(root) {
		c.sendMessage(msg)
		c.readReply()
		seen := s.takeCalls()
		if strings.HasPrefix(name, "NFS version") {
			assert.Empty(t, seen, "the bridge refuses it")
			continue
		}
		require.Len(t, seen, 1, name)
		assert.Nil(t, seen[0].Item, name)
		assert.True(t, bytes.Equal(msg[4:], seen[0].Msg[4:]), name)
	}

	// A verifier with a body, and a stamp and a name that only the client
	// understands.
	for _, n := range []int{1, 5000, 5003, 1 << 20} {
		data := randomBytes(n, 9)
		args := (&nfs3.WriteArgs{File: root, Data: data}).AppendTo(nil)
		msg := oncrpc.AppendCall(nil, 7, &oncrpc.Exchange{
			Prog: nfs3.Program, Vers: 3, Proc: nfs3.ProcWrite,
			Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1<<32 - 1, GIDs: []uint32{7, 0, 7}},
		}, "not-this-host")
		copy(msg[32:], "stmp")
		msg = xdr.AppendOpaque(msg[:len(msg)-4], []byte("verifier"))
		head := append(msg, args...)
		c.sendMessage(xdr.AppendFixed(head, data))
		c.readReply()
		seen := s.takeCalls()
		require.Len(t, seen, 1)
		if n < 4000 {
			assert.Nil(t, seen[0].Item)
			assert.Equal(t, xdr.AppendFixed(head[4:], data), seen[0].Msg[4:])
			continue
		}
		assert.Equal(t, head[4:], seen[0].Msg[4:])
		assert.Equal(t, len(head), seen[0].ItemPos)
		assert.True(t, bytes.Equal(data, seen[0].Item))
	}
}

// TestRetransmission checks that a retransmitted call on another connection is
// not executed again, if a cache of replies is in front of the bridge.
func TestRetransmission(t *testing.T) {
	var s *recordingService
	g := newTestBridge(t, bridgeOptions{
		service: func(next oncrpc.Service) oncrpc.Service { s = &recordingService{Service: next}; return s },
		front: func(next oncrpc.Service) oncrpc.Service {
			return replay.New(next, replay.Config{Keep: nfsserver.ExecuteOnce})
		},
	})
	args := (&nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: g.exportHandle(), Name: []byte("dir")}}).AppendTo(nil)
	s.takeCalls()
	var replies [][]byte
	for range 2 {
		c := dialRaw(t, g.addr)
		c.sendMessage(encodeCall(5, nfs3.Program, 3, nfs3.ProcMkdir, args))
		replies = append(replies, c.readReply())
		require.NoError(t, c.Close())
	}
	assert.Equal(t, replies[0], replies[1])
	assert.Len(t, s.takeCalls(), 1)
	assert.DirExists(t, filepath.Join(g.dir, "dir"))
}

// TestSameXIDs checks that clients with the same XIDs at the same time get
// their own replies, and that the server sees no XID twice.
func TestSameXIDs(t *testing.T) {
	const clients, each = 12, 40
	var s *recordingService
	g := newTestBridge(t, bridgeOptions{service: func(next oncrpc.Service) oncrpc.Service { s = &recordingService{Service: next}; return s }})
	for i := range clients {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, fmt.Sprint(i)), randomBytes(70000, byte(i)), 0o644))
	}
	f := mountOverTCP(t, g.addr)
	handles := make([]nfs3.FH, clients)
	for i := range handles {
		n, err := f.Stat(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		handles[i] = n.Handle
	}
	s.takeCalls()
	var all sync.WaitGroup
	for i := range clients {
		c, data := dialRaw(t, g.addr), randomBytes(70000, byte(i))
		all.Go(func() {
			for xid := range uint32(each) {
				args := nfs3.ReadArgs{File: handles[i], Count: 70000}
				c.sendMessage(encodeCall(xid, nfs3.Program, 3, nfs3.ProcRead, args.AppendTo(nil)))
			}
			for range each {
				r := xdr.NewReader(c.readReply())
				xid := r.Uint32()
				assert.Less(t, xid, uint32(each))
				r.Fixed(20)
				var res nfs3.ReadRes
				res.Decode(&r)
				assert.NoError(t, r.Done())
				assert.True(t, bytes.Equal(data, res.Data))
			}
		})
	}
	all.Wait()
	xids := make(map[string]bool)
	for _, req := range s.takeCalls() {
		xids[string(req.Msg[:4])] = true
	}
	assert.Len(t, xids, clients*each)
}
