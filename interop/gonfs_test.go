//go:build interop

package interop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmware/go-nfs-client/nfs"
	nfsrpc "github.com/vmware/go-nfs-client/nfs/rpc"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

const (
	gonfsLimit = 20 * time.Second
	gonfsUID   = 1000
	gonfsGID   = 1001

	// What the test tells the process that it starts in the namespace.
	gonfsPrograms = "INTEROP_GONFS_PROGRAMS" // a directory
	gonfsDir      = "INTEROP_GONFS_DIR"
)

// TestGoNFS lets go-nfs-client, which nobody here wrote, do all it knows on what
// nfsrdmad serves over TCP, and on what it serves over RDMA to a bridge. The
// client asks a portmapper on port 111, and no host has that port to spare: so the
// test runs once more, as a process in a network namespace that ends with it.
//
// What the client lacks, where it matters here: it writes FILE_SYNC alone, so that
// its COMMIT, in Close, finds nothing left to do, and it looks at no verifier; its
// OpenFile does not truncate; it claims group 0 for every caller; and ACCES is none
// of os.ErrPermission.
func TestGoNFS(t *testing.T) {
	for name, session := range map[string]func(t *testing.T, programs, dir string){
		"TCP": gonfsPast, "bridge": gonfsThrough,
	} {
		t.Run(name, func(t *testing.T) {
			if dir := os.Getenv(gonfsDir); dir != "" {
				session(t, os.Getenv(gonfsPrograms), dir)
				return
			}
			gonfsInNamespace(t)
		})
	}
}

// gonfsInNamespace runs the test once more, in a network namespace.
func gonfsInNamespace(t *testing.T) {
	needRoot(t)
	programs := t.TempDir()
	for _, name := range []string{"nfsrdmad", "mountrdma"} {
		require.NoError(t, goBuild(filepath.Join(programs, name), "../cmd/"+name))
	}
	dir := served(t)
	require.NoError(t, os.Chown(dir, gonfsUID, gonfsGID))
	self, err := os.Executable()
	require.NoError(t, err)
	var out buffer
	cmd := exec.Command("unshare", "--net", self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Stdout, cmd.Stderr = &out, &out
	// What it leaves when it is killed is removed with this test's files.
	cmd.Env = append(os.Environ(), gonfsPrograms+"="+programs, gonfsDir+"="+dir, "TMPDIR="+t.TempDir())
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	defer p.Kill()
	select {
	case <-p.Done():
		assert.Zero(t, p.ExitCode())
	case <-time.After(gonfsLimit):
		t.Errorf("not done after %v", gonfsLimit)
	}
	t.Logf("in the namespace:\n%s", tail(out.String()))
}

// gonfsPast is the test inside of the namespace, over TCP.
func gonfsPast(t *testing.T, programs, dir string) {
	loopback(t)
	portmapper(t)
	gonfsSession(t, programs, dir, "127.0.0.1:2049")
}

// gonfsThrough is the test inside of the namespace, through a bridge that has its
// own portmapper.
func gonfsThrough(t *testing.T, programs, dir string) {
	loopback(t)
	gonfsSession(t, programs, dir, "127.0.0.1:0", "--listen", "127.0.0.1:2049", "--portmap", "127.0.0.1:111", "127.0.0.1")
}

// gonfsSession serves dir, also at the TCP address tcp, and has the client use it:
// through a bridge with the given arguments, if there are any.
func gonfsSession(t *testing.T, programs, dir, tcp string, bridge ...string) {
	var stderr buffer
	d, err := StartServer(&stderr, filepath.Join(programs, "nfsrdmad"), "--listen", "127.0.0.1:20049", "--tcp", tcp,
		"--state", t.TempDir(), dir+"=/x")
	require.NoError(t, err, "nfsrdmad says: %s", &stderr)
	t.Cleanup(func() {
		d.Signal(syscall.SIGTERM)
		assert.Zero(t, d.ExitCode(), "exit status after SIGTERM")
		if t.Failed() {
			t.Logf("nfsrdmad says:\n%s", tail(stderr.String()))
		}
	})
	if len(bridge) > 0 {
		startBridge(t, filepath.Join(programs, "mountrdma"), bridge...)
	}

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

	g := gonfs{v, dir}
	t.Run("content", g.content)
	t.Run("names", g.names)
	t.Run("directory", g.directory)
	t.Run("errors", g.errors)

	require.NoError(t, m.Unmount())
}

// loopback brings up the one device of a new network namespace.
func loopback(t *testing.T) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, lo))
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo))
}

// portmapper tells where the daemon's programs are, until the test ends.
func portmapper(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:2049")
	var mux oncrpc.Mux
	rpcbind.NewPortmapper(append(
		rpcbind.Services("tcp", at, nfs.MountProg, nfs.MountVers),
		rpcbind.Services("tcp", at, nfs.Nfs3Prog, nfs.Nfs3Vers)...)).Register(&mux)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", rpcbind.Port))
	require.NoError(t, err)
	server := &oncrpc.Server{Handler: &mux}
	end := make(chan error)
	go func() { end <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, server.Shutdown(context.Background()))
		assert.NoError(t, <-end)
	})
}
