//go:build interop

package interop

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmware/go-nfs-client/nfs"
	nfsrpc "github.com/vmware/go-nfs-client/nfs/rpc"
)

const (
	gonfsLimit = 20 * time.Second
	gonfsUID   = 1000
	gonfsGID   = 1001
)

// TestGoNFS makes go-nfs-client, an independent implementation, use all its
// functions on nfsrdmad over TCP, and on nfsrdmad over RDMA through a bridge.
// The client asks a portmapper on port 111: nfsrdmad's own, and the bridge's.
//
// The client's relevant limits: it writes only FILE_SYNC, so that its COMMIT,
// in Close, has nothing to do, and it ignores verifiers; its OpenFile does not
// truncate; it claims group 0 for every caller; and ACCES does not match
// os.ErrPermission.
func TestGoNFS(t *testing.T) {
	for name, session := range map[string]func(t *testing.T){"TCP": gonfsPast, "bridge": gonfsThrough} {
		t.Run(name, func(t *testing.T) { runIsolated(t, gonfsLimit, session) })
	}
}

// gonfsPast is the test inside the namespace, over TCP.
func gonfsPast(t *testing.T) {
	d := startDaemon(t, "--portmap", "127.0.0.1:111")
	gonfsSession(t, d)
}

// gonfsThrough is the test inside the namespace, through a bridge with a
// portmapper.
func gonfsThrough(t *testing.T) {
	d := startDaemon(t)
	startBridge(t, programPath("mountrdma"), "--listen", "127.0.0.1:2049", "--portmap", "127.0.0.1:111", "--insecure", d.rdma)
	gonfsSession(t, d)
}

// gonfsSession makes the client use d's export, which the client finds by the
// portmapper.
func gonfsSession(t *testing.T, d *daemon) {
	require.NoError(t, os.Chown(d.dir, gonfsUID, gonfsGID))
	auth := nfsrpc.NewAuthUnix("gonfs", gonfsUID, gonfsGID).Auth()
	m, err := nfs.DialMount("127.0.0.1")
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Mount("/nowhere", auth)
	require.EqualError(t, err, "MNT3ERR_NOENT")
	v, err := m.Mount("/x", auth)
	require.NoError(t, err)
	defer v.Close()

	info, err := v.FSInfo()
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, info.RTPref)
	assert.EqualValues(t, 1<<20, info.WTPref)
	assert.True(t, info.Attr.Attr.IsDir())

	g := gonfsDir{v, d.dir}
	t.Run("content", g.checkContent)
	t.Run("names", g.checkNames)
	t.Run("directory", g.checkListing)
	t.Run("errors", g.checkErrors)

	require.NoError(t, m.Unmount())
	d.stopGracefully()
}
