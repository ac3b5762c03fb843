package main

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestConnections checks that calls use all connections, and that data are
// right.
func TestConnections(t *testing.T) {
	r, point := newMountTest(t)
	var mu sync.Mutex
	calls := make(map[netip.AddrPort]int) // WRITEs, by connection
	isWrite := *matchProc(nfs3.Program, nfs3.ProcWrite)
	notice := func(req *oncrpc.Request) bool {
		if isWrite(req) {
			mu.Lock()
			defer mu.Unlock()
			calls[req.Peer.Addr]++
		}
		return false
	}
	r.holdCall.Store(&notice)
	cmd := startForeground(t, r.addr+":/x", point, "-o", "nconnect=3,wsize=65536")
	data := randomBytes(3<<20+5, 2)
	writeFile(t, data, point, "g")
	assert.Equal(t, string(data), readFile(t, r.dir, "g"))
	assert.Equal(t, string(data), readFile(t, point, "g"))
	mustRun(t, "umount", point)
	require.NoError(t, cmd.Wait())
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, calls, 3)
}
