//go:build interop

package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const portmapLimit = 2 * time.Minute

// These are the host's and the guest's addresses in the tests of portmappers.
const (
	host4 = "10.9.0.1"
	host6 = "fd00:9::1"

	guest6 = "fd00:9::2"
)

// TestPortmap checks nfsrdmad's portmapper with rpcinfo and showmount; tshark
// judges its answers.
func TestPortmap(t *testing.T) {
	runIsolated(t, portmapLimit, func(t *testing.T) {
		onHost(t, "/", "ip addr add "+host4+"/24 dev lo; ip addr add "+host6+"/64 dev lo nodad")
		raw := filepath.Join(t.TempDir(), "portmap.pcap")
		capture := Record(t, raw, "port 111")
		d := startDaemon(t, "--listen", ":20049", "--tcp", ":2049", "--portmap", ":111")
		checkPortmapper(t)
		checkListing(t)
		capture.End(t)
		assert.Empty(t, expertInfos(t, raw))
		n := countFramesByFilter(t, raw, nil, "_ws.malformed", "portmap && udp", "rpc.msgtyp == 0", "rpc.msgtyp == 1")
		assert.Zero(t, n[0], "malformed")
		assert.Positive(t, n[1], "by UDP")
		assert.Equal(t, n[2], n[3], "a reply to each call")
		d.stopGracefully()
	})
}

// checkPortmapper checks the answers that rpcinfo and showmount get from either
// portmapper at the host's addresses. R8166-9-2
func checkPortmapper(t *testing.T) {
	for _, tt := range []struct{ script, want string }{
		{"rpcinfo -p " + host4, "100003 3 tcp 2049 nfs"},
		{"rpcinfo -p " + host4, "100005 3 tcp 2049 mountd"},
		{"rpcinfo -p " + host4, "100227 3 tcp 2049 nfs_acl"},
		{"rpcinfo -p " + host4, "100000 2 udp 111 portmapper"},
		{"rpcinfo " + host4, "100003 3 rdma 0.0.0.0.78.81 nfs superuser"},
		{"rpcinfo " + host4, "100003 3 rdma6 ::.78.81 nfs superuser"},
		{"rpcinfo " + host6, "100005 3 tcp6 ::.8.1 mountd superuser"},
		{"rpcinfo " + host6, "100000 4 udp6 ::.0.111 portmapper superuser"},
		{"rpcinfo -T tcp " + host4 + " 100003", "program 100003 version 3 ready and waiting"},
		{"rpcinfo -T tcp6 " + host6 + " 100003 3", "program 100003 version 3 ready and waiting"},
		{"rpcinfo -T tcp " + host4 + " 100003 4", "program 100003 version 4 ready and waiting"},
		{"rpcinfo -T tcp " + host4 + " 100005 3", "program 100005 version 3 ready and waiting"},
		{"rpcinfo -T udp " + host4 + " 100000", "program 100000 version 4 ready and waiting"},
		{"rpcinfo -T udp6 " + host6 + " 100000 3", "program 100000 version 3 ready and waiting"},
		{"rpcinfo -m " + host4, "GETADDR DUMP"},
		{"rpcinfo -T tcp " + host4 + " 100021 4", "program 100021 version 4 ready and waiting"},
		{"rpcinfo -T udp " + host4 + " 100021 1", "program 100021 version 1 ready and waiting"},
		{"rpcinfo -T udp6 " + host6 + " 100024", "program 100024 version 1 ready and waiting"},
		{"showmount --no-headers -e " + host4, "/x "},
		{"showmount --no-headers -e " + host6, "/x "},
	} {
		assert.Contains(t, joinWords(onHost(t, "/", tt.script)), tt.want, tt.script)
	}
	for _, refused := range []string{
		"rpcinfo -T udp " + host4 + " 100003", // over TCP and RDMA alone
		"rpcinfo -T tcp " + host4 + " 100003 2",
		"rpcinfo -T tcp " + host4 + " 100021 2",
	} {
		out, err := tryOnHost("/", refused)
		assert.Error(t, err, "%s\n%s", refused, out)
	}
}

// checkListing checks the further answers of the daemon's own portmapper. rpcbind
// gives no answer if it lists a netid that is missing in its host's
// /etc/netconfig.
func checkListing(t *testing.T) {
	out := joinWords(onHost(t, "/", "rpcinfo -l "+host4+" 100003 3"))
	assert.Contains(t, out, "inet/tcp/cots_ord "+host4+".8.1")
	assert.Contains(t, out, "inet/rdma/cots_ord "+host4+".78.81")
	out = joinWords(onHost(t, "/", "rpcinfo -l "+host6+" 100003 3"))
	assert.Contains(t, out, "inet6/rdma/cots_ord "+host6+".78.81")
	_, err := tryOnHost("/", "rpcinfo -d 100003 3") // by the local socket, which does not exist
	assert.Error(t, err)
}

// joinWords returns the words of a text, with one blank between them.
func joinWords(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestRegister checks that nfsrdmad registers with rpcbind.
func TestRegister(t *testing.T) {
	runIsolated(t, portmapLimit, func(t *testing.T) {
		onHost(t, "/", "ip addr add "+host4+"/24 dev lo; ip addr add "+host6+"/64 dev lo nodad")
		fails := func(flags ...string) string {
			args := append([]string{"serve", "--register", "--state", t.TempDir(), "--control", ""}, flags...)
			out, err := exec.Command(programPath("nfsrdmad"), append(args, t.TempDir()+"=/y")...).CombinedOutput()
			assert.Error(t, err)
			return string(out)
		}
		registered := func() string { return joinWords(onHost(t, "/", "rpcinfo "+host4)) }
		assert.Regexp(t, `no rpcbind on this host .*: start it \(systemctl start rpcbind\), or`, fails())

		startRPCBind(t, "rpcbind", "/run")
		d := startDaemon(t, "--listen", ":20049", "--tcp", ":2049", "--register")
		checkPortmapper(t)
		assert.Regexp(t, `program 100003 version 3 on rdma is registered already, at 0\.0\.0\.0\.78\.81 by superuser: stop that server`,
			fails("--listen", ":20050", "--tcp", ":2050"))
		assert.Contains(t, registered(), "100003 3 rdma 0.0.0.0.78.81", "it is still there")

		d.proc.Kill()
		assert.Contains(t, registered(), "100003 3 rdma 0.0.0.0.78.81", "rpcbind does not know")
		d = startDaemon(t, "--listen", ":20050", "--tcp", ":2050", "--register")
		list := registered()
		assert.Contains(t, list, "100003 3 rdma 0.0.0.0.78.82")
		assert.Contains(t, list, "100005 3 tcp6 ::.8.2")
		assert.NotContains(t, list, ".78.81")
		d.stopGracefully()
		for _, prog := range []string{"100003", "100005", "100227", "100021", "100024"} {
			assert.NotContains(t, registered(), prog)
		}
		assert.Contains(t, registered(), "100000 4 tcp", "rpcbind's own")
	})
}

// startRPCBind starts rpcbind, whose socket is in the directory run.
func startRPCBind(t *testing.T, rpcbind, run string) {
	said := new(sharedBuffer)
	cmd := exec.Command(rpcbind, "-f")
	cmd.Stdout, cmd.Stderr = said, said
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", run+"/rpcbind.sock")
		if err == nil {
			c.Close()
		}
		return err == nil
	}, daemonLimit, pollEvery, "rpcbind: %s", said)
}

// TestPortmapMount mounts from Linux with the fewest options a person must
// type, by nfsrdmad's portmapper, and by rpcbind if nfsrdmad is registered
// there. The guest is on a tap because it asks port 111 of the host that it
// mounts from.
func TestPortmapMount(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	t.Run("built in", func(t *testing.T) {
		portmapMount(t, shared.ethernet.inNamespace(t, programPath("nfsrdmad")), "--portmap", ":111")
	})
	t.Run("rpcbind", func(t *testing.T) {
		run := t.TempDir() // shared by rpcbind and nfsrdmad
		startRPCBind(t, withRun(t, run, shared.ethernet.inNamespace(t, "rpcbind")), run)
		portmapMount(t, withRun(t, run, shared.ethernet.inNamespace(t, programPath("nfsrdmad"))), "--register")
	})
}

// onEthernet gives the guest siw, and both ends IPv6, on the Ethernet without
// address translation.
func onEthernet(t *testing.T) {
	t.Helper()
	ip := shared.ethernet.inNamespace(t, "ip")
	// Without ::1, Go concludes that IPv6 is missing.
	onHost(t, "/", ip+" link set lo up; "+ip+" addr add "+host6+"/64 dev tap0 nodad")
	// rxe is of no use here: nfsrdmad speaks iWARP.
	mustInGuest(t, "rdma link delete rxe2; rdma link add siw2 type siw netdev eth2; echo 0 >/proc/sys/net/ipv6/conf/eth2/accept_dad; ip addr add "+guest6+"/64 dev eth2")
	t.Cleanup(func() {
		onHost(t, "/", ip+" addr del "+host6+"/64 dev tap0")
		mustInGuest(t, "ip addr del "+guest6+"/64 dev eth2; rdma link delete siw2; rdma link add rxe2 type rxe netdev eth2")
	})
}

// withRun returns a program that runs the given program with a directory as its
// /run.
func withRun(t *testing.T, dir, program string) string {
	file := filepath.Join(t.TempDir(), filepath.Base(program))
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -ec 'mount --bind %s /run; exec %s \"$@\"' sh \"$@\"\n", dir, program)
	require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
	return file
}

func portmapMount(t *testing.T, nfsrdmad string, flags ...string) {
	dir := Served(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("found"), 0o644))
	said := new(sharedBuffer)
	flags = append(flags, "--control", "", "--listen", ":20049", "--tcp", ":2049", "--state", t.TempDir(), dir+"=/x")
	d, err := StartServer(said, nfsrdmad, flags...)
	require.NoError(t, err, "nfsrdmad says: %s", said)
	defer d.Kill()
	for _, mount := range []struct{ from, options, proto string }{
		{hostEthernet, "vers=3,rdma,nolock", "rdma"},
		{"[" + host6 + "]", "vers=3,proto=rdma6,nolock", "rdma6"},
		{hostEthernet, "vers=3,nolock", "tcp"},
	} {
		t.Run(mount.proto, func(t *testing.T) {
			out, status := tryInGuest(t, "mount -t nfs -o "+mount.options+" "+mount.from+":/x /mnt")
			require.Zero(t, status, "%s\nnfsrdmad says: %s", out, said)
			assert.Equal(t, "found", mustInGuest(t, "cat /mnt/file"))
			assert.Contains(t, mustInGuest(t, "grep ' /mnt ' /proc/mounts"), "proto="+mount.proto+",")
			unmountInGuest(t, "/mnt")
		})
	}
}
