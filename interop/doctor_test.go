//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
)

// A doctored guest is one of its own, which the test breaks.
type doctored struct {
	*testing.T
	*Guest
}

// newDoctored boots a guest with both programs, and with exports in which a tmpfs, /srv, stands.
func newDoctored(t *testing.T) doctored {
	t.Helper()
	buildOnce(t)
	dir, err := BuildGuest(t.Context(), "guest/build")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	g, err := Boot(ctx, Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	for _, name := range []string{"nfsrdmad", "mountrdma"} {
		require.NoError(t, g.Push(t.Context(), programPath(name), "/bin/"+name))
	}
	d := doctored{t, g}
	d.run("mkdir /srv && mount -t tmpfs tmpfs /srv && echo '/srv *(rw)' >/etc/nfsrdma.exports")
	return d
}

func (d doctored) run(script string) string { return inGuest(d.T, d.Guest, script) }

// finds runs a doctor, and returns the line of each finding of a check.
func (d doctored) finds(command, check string) string {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), execLimit)
	defer cancel()
	out, _, err := d.Exec(ctx, command+" --json 2>/dev/null") // the status says that something fails
	require.NoError(d, err, command)
	var list []doctor.Finding
	require.NoError(d, json.Unmarshal([]byte(out), &list), "%s: %s", command, out)
	var lines []string
	for _, f := range list {
		assert.Equal(d, f.Grade == doctor.OK, f.Remedy == "", f)
		if f.Check == check {
			lines = append(lines, string(f.Grade)+" "+strings.TrimSuffix(f.Found+": "+f.Remedy, ": "))
		}
	}
	return strings.Join(lines, "\n")
}

// TestDoctor has the doctors look at Linux, on which the thing itself is missing or in the way:
// its own server of NFS, rpcbind, FUSE, leases, file systems without leases or with handles
// that do not hold, and a clock that nobody sets.
func TestDoctor(t *testing.T) {
	d := newDoctored(t)
	const ours, beside = "nfsrdmad doctor --exports /etc/nfsrdma.exports", "nfsrdmad doctor --exports /etc/nfsrdma.exports --listen :20050 --tcp :2050"

	// Beside Linux's own server.
	const disable = "systemctl disable --now nfs-server, or another port with "
	assert.Equal(t, "fail Linux's NFS server uses port 20049: "+disable+"--listen\nfail Linux's NFS server uses port 2049: "+disable+"--tcp", d.finds(ours, "port"))
	assert.Equal(t, "fail Linux's NFS server uses RDMA port 20049: clients with RDMA hardware reach it instead of the daemon: "+disable+"--listen", d.finds(ours, "knfsd"))
	assert.Equal(t, "ok :20050 is free for --listen\nok :2050 is free for --tcp", d.finds(beside, "port"))
	assert.Regexp(t, `^ok Linux's NFS server is running, on other ports: .*\btcp 2049\b`, d.finds(beside, "knfsd"))
	assert.Equal(t, "ok rpcbind responds: --register, or register = auto in nfsrdmad.conf, registers the ports for version 3 clients", d.finds(ours, "rpcbind"))
	assert.Contains(t, d.finds(ours, "clock"), "warn the clock is not synchronized")

	// File systems and leases.
	assert.Regexp(t, `^ok /srv is a directory \(tmpfs, file handles, leases\)$`, d.finds(ours, "directory"))
	d.run("echo >/export/f; mount -t nfs -o vers=3,tcp,nolock 127.0.0.1:/export /mnt && echo '/mnt *(ro)' >/etc/nfs.exports")
	const mounted = "nfsrdmad doctor --exports /etc/nfs.exports"
	assert.Regexp(t, `^warn /mnt \(nfs\): leases are not supported \(invalid argument\): .*: export a directory of ext4`, d.finds(mounted, "leases"))
	assert.Contains(t, d.finds(mounted, "handles"), "warn /mnt (nfs): the kernel opens files by handle only while they are in its cache")
	d.run("umount /mnt; echo 0 >/proc/sys/fs/leases-enable")
	assert.Regexp(t, `^warn this kernel grants no leases \(fs.leases-enable is 0\): .*: sysctl -w fs.leases-enable=1`, d.finds(ours, "leases"))
	d.run("sysctl -w fs.leases-enable=1")
	assert.Empty(t, d.finds(ours, "leases"))

	// Without it, though its module is there.
	d.run("knfsd stop")
	assert.Equal(t, "ok :20049 is free for --listen\nok :2049 is free for --tcp", d.finds(ours, "port"))
	assert.Equal(t, "ok Linux's NFS server is loaded, and uses no port", d.finds(ours, "knfsd"))
	d.run("killall rpcbind")
	assert.Regexp(t, "^warn no rpcbind responds on this host: .*--portmap :111", d.finds(ours, "rpcbind"))

	// On a client.
	const client = "mountrdma doctor 127.0.0.1"
	assert.Contains(t, d.finds(client, "fuse"), "fail /dev/fuse is missing: mounts are impossible: modprobe fuse")
	assert.Equal(t, "ok none of 0 NFS mounts hangs", d.finds(client, "mounts"))
}
