package nfsserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestReserve checks that calls with possibly long results wait for memory
// once, before they hold any resource that other calls could wait for.
func TestReserve(t *testing.T) {
	g := newTestServer(t, newMemFS(), func(c *Config) {
		for i := range 500 {
			path := fmt.Sprintf("/%d%s", i, strings.Repeat("x", 200))
			c.Exports = append(c.Exports, Export{Path: path, FS: newMemFS(), Clients: exports.Everyone(exports.Options{Insecure: true})})
		}
	})
	for range 100 {
		g.server.mounts.addMount(strings.Repeat("h", 200), strings.Repeat("p", 800))
	}
	root := g.handleOf(memRoot)
	for name, tt := range map[string]struct {
		prog, vers, proc uint32
		args             message
		least            int
	}{
		"READDIR":     {nfs3.Program, 3, nfs3.ProcReadDir, &nfs3.ReadDirArgs{Dir: root, Count: 100000}, 100000},
		"READDIRPLUS": {nfs3.Program, 3, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: root, DirCount: 1000, MaxCount: 100000}, 100000},
		"GETACL":      {nfsacl.Program, 3, nfsacl.ProcGetACL, &nfsacl.GetACLArgs{Object: root}, 2 * nfsacl.MaxEntries * 12},
		"DUMP":        {mount3.Program, 3, mount3.ProcDump, nil, 1000},
		"EXPORT":      {mount3.Program, 3, mount3.ProcExport, nil, 500 * 200},
	} {
		t.Run(name, func(t *testing.T) {
			msg := g.callHeader(tt.prog, tt.vers, tt.proc)
			if tt.args != nil {
				msg = tt.args.AppendTo(msg)
			}
			var held []int
			rep := oncrpc.Reply{Hold: func(n int) {
				held = append(held, n)
				g.checkIdle()
			}}
			require.True(t, g.mux.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: g.maxReply}, &rep))
			if assert.Len(t, held, 1) {
				assert.GreaterOrEqual(t, held[0], tt.least)
				assert.GreaterOrEqual(t, held[0], len(rep.Head)-acceptedLen)
			}
		})
	}
}

// TestListingsOverTCPAreBounded checks that clients that list a long directory over TCP and
// read nothing take no more than their share of the memory.
func TestListingsOverTCPAreBounded(t *testing.T) {
	ctx := t.Context()
	fs := mem.New(mem.Options{})
	for i := range 4000 {
		_, err := fs.Create(ctx, &vfs.Cred{}, fs.Root(), fmt.Sprintf("%0200d", i), vfs.CreateHow{})
		require.NoError(t, err)
	}
	g := newTestServer(t, fs, withOptions(exports.Options{Insecure: true}))
	s := &oncrpc.Server{Handler: g.mux}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, s.Shutdown(ctx))
	})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	h := fs.Root()
	root := g.server.exports.AppendHandle(nil, g.exportAt(0), &h)
	args := nfs3.ReadDirPlusArgs{Dir: root, DirCount: 1 << 20, MaxCount: 1 << 20}
	msg := args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, nfs3.ProcReadDirPlus))
	record := append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...)
	before := heap()
	for range 3 {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		for range 40 {
			_, err = nc.Write(record)
			require.NoError(t, err)
		}
	}
	// The client group's share is half of the server's memory, less a rest too small for
	// another reply.
	const whole = 64 << 20
	require.Eventually(t, func() bool { return s.Stats().Replies.InUse > whole-2<<20 }, 20*time.Second, 5*time.Millisecond)
	assert.LessOrEqual(t, s.Stats().Replies.InUse, int64(whole))
	assert.Less(t, heap()-before, int64(2*whole))
}
