package main

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestCalls checks that a server answers the calls, and that a reply with another
// number is an error.
func TestCalls(t *testing.T) {
	dir, err := posix.Open(t.TempDir(), posix.Options{})
	require.NoError(t, err)
	defer dir.Close()
	s, err := nfsrdma.NewServer(nfsrdma.ServerConfig{Exports: []nfsserver.Export{{Path: "/e", FS: dir}}, IWARP: iwarp.Config{CRC: mpa.CRCAuto}})
	require.NoError(t, err)
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.ServeRDMA(ln)
	busy := runtime.NumCPU()
	require.NoError(t, runCallClient([]string{ln.Addr().String(), "/e", fmt.Sprintf("%d/%d", busy, busy+1), "50ms"}))

	call, err := newGetattrCall(ln.Addr().String(), "/e")
	require.NoError(t, err)
	l, err := newCallLoop(call)
	require.NoError(t, err)
	const fd = 5
	l.stamp(fd, l.out)
	reply := make([]byte, len(l.in))
	reply[atRPC+3] = 1
	assert.NoError(t, l.check(fd, reply))
	reply[atStat+7] = 70 // NFS3ERR_STALE
	assert.Error(t, l.check(fd, reply))
	l.stamp(fd, l.out)
	reply[atStat+7] = 0
	assert.Error(t, l.check(fd, reply), "an old reply")
}
