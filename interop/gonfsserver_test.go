//go:build interop

package interop

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGoNFSServer makes the kernel's client mount the in-memory file system of
// go-nfs, whose server does not know RDMA, behind a stream.Listener.
// Written data must be there on a new mount, and the client must not lose its
// connection.
func TestGoNFSServer(t *testing.T) {
	sharedGuest(t)
	gonfs := filepath.Join(t.TempDir(), "gonfs")
	build, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", gonfs, "./gonfs").CombinedOutput()
	require.NoError(t, err, "%s", build)
	log := new(sharedBuffer)
	server, err := StartServer(log, gonfs, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Logf("gonfs says:\n%s", outputTail(log.String()))
		}
	})
	s := guestSite{host: "10.0.2.2", export: "/", rdma: portOf(t, server.RDMA), tcp: portOf(t, server.TCP), mountd: portOf(t, server.TCP)}

	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	assert.Equal(t, "from memory\n", mustInGuest(t, "cat /mnt/hello"))
	// Linux uses several WRITEs and READs for 3 MB. No name is a prefix of
	// another: the file system would rename both.
	logTime(t, "write", func() {
		mustInGuest(t, `set -e; cd /mnt
		for n in 0 1 3 1000 4096 70001 1048576 3000001; do
			head -c $n /dev/urandom >/tmp/size$n; cp /tmp/size$n $n.of
		done
		mkdir dir; mv 3.of dir/moved; rm 1000.of
		ln -s dir/moved link; ln -s $(head -c 1500 /dev/zero | tr '\0' p) long
		cd dir; touch $(seq 100)`)
	})
	used := countProcedures(t)
	unmountInGuest(t, "/mnt")

	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	logTime(t, "read", func() {
		mustInGuest(t, `set -e; cd /mnt
		for n in 0 1 4096 70001 1048576 3000001; do cmp $n.of /tmp/size$n; done
		cmp link /tmp/size3
		test $(readlink link) = dir/moved; test $(readlink long | wc -c) = 1501
		test $(ls dir | wc -l) = 101; ! cat none; ! mkdir dir; ! rmdir dir; rm -r dir; ! ls dir`)
	})
	assert.Equal(t, "0.of\n1.of\n1048576.of\n3000001.of\n4096.of\n70001.of\nhello\nlink\nlong\n", mustInGuest(t, "ls /mnt"))
	assert.Contains(t, mustInGuest(t, "grep ' /mnt ' /proc/mounts"), "proto=rdma")
	for name := range countProcedures(t) {
		used[name]++
	}
	for _, name := range []string{"ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "RENAME", "READDIRPLUS"} {
		assert.Positive(t, used[name], "calls of %s", name)
	}
	unmountInGuest(t, "/mnt")
	assert.Empty(t, log.String(), "the listener's log")
}
