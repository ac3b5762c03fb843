//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSubmounts mounts file systems below an export with crossmnt. Linux sees each of them with its
// own space, and as a file system of its own: by version 3 and 4.2, across unmounts under load, and
// across restarts of the daemon.
func TestSubmounts(t *testing.T) {
	needRoot(t)
	dir := reachableDir(t)
	kinds := []string{"ext4", "xfs", "btrfs", "tmpfs"}
	for _, kind := range kinds {
		at := filepath.Join(dir, "x", kind)
		onHost(t, "/", "mkdir -p "+at)
		if kind == "tmpfs" {
			onHost(t, "/", "mount -t tmpfs -o size=300m t "+at)
			t.Cleanup(func() { _, _ = tryOnHost("/", "umount "+at) })
		} else {
			d := newDiskOf(t, kind)
			onHost(t, "/", fmt.Sprintf("mount --bind %s %s", d.dir, at))
			t.Cleanup(func() { _, _ = tryOnHost("/", "umount "+at) })
		}
		onHost(t, at, "mkdir tree tree/in; seq 1000 >tree/in/numbers; ln -s in/numbers tree/link; chmod -R a+rwX .")
	}
	onHost(t, dir, "btrfs -q subvolume create x/btrfs/volume; echo volume >x/btrfs/volume/name; chmod -R a+rwX x/btrfs/volume")
	onHost(t, dir, "echo own >x/own; chmod 777 x")
	file := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(file, []byte(dir+"/x *(rw,insecure,crossmnt,no_root_squash)\n"), 0o644))
	d := serveExports(t, dir, file)
	s := d.guestSite()
	s.export = dir + "/x"
	for _, vers := range []string{"", "4.2"} {
		for _, transport := range []string{"tcp", "rdma"} {
			t.Run("version "+vers+" over "+transport, func(t *testing.T) { checkSubmounts(t, d, s.withVersion(vers), transport, kinds) })
		}
	}
}

func checkSubmounts(t *testing.T, d *daemon, s guestSite, transport string, kinds []string) {
	s.mountInGuest(t, "/mnt", s.mountOptions(transport, "actimeo=1"))
	dir := filepath.Join(d.dir, "x")
	assert.Equal(t, "btrfs\next4\nown\ntmpfs\nxfs\n", mustInGuest(t, "ls /mnt"))
	mustInGuest(t, "ls /mnt/btrfs/. /mnt/ext4/. /mnt/tmpfs/. /mnt/xfs/.") // busybox's find compares what stat says before that
	assert.Equal(t, "/mnt\n/mnt/btrfs\n/mnt/ext4\n/mnt/own\n/mnt/tmpfs\n/mnt/xfs\n", mustInGuest(t, "find /mnt -xdev | sort"), "find stays in one file system")
	devices := map[string]string{}
	for _, kind := range append([]string{"", "btrfs/volume"}, kinds...) {
		at := "/mnt/" + kind
		device := mustInGuest(t, "stat -c %d "+at+"/.")
		assert.Empty(t, devices[device], kind)
		devices[device] = kind
	}
	assert.Equal(t, "volume\n", mustInGuest(t, "cat /mnt/btrfs/volume/name"))
	for _, kind := range kinds {
		at, host := "/mnt/"+kind, filepath.Join(dir, kind)
		blocks := onHost(t, "/", "stat -f -c %b*%S "+host)
		var n, size, got int64
		_, err := fmt.Sscanf(blocks, "%d*%d", &n, &size)
		require.NoError(t, err)
		_, err = fmt.Sscan(mustInGuest(t, "df -kP "+at+"/. | tail -n 1 | awk '{print $2}'"), &got)
		require.NoError(t, err)
		assert.InDelta(t, n*size>>10, got, 1024, "df of %s, in blocks of wsize", kind)
		mustInGuest(t, fmt.Sprintf("cp -a %[1]s/tree %[1]s/copy && diff -r %[1]s/tree %[1]s/copy && tar -C %[1]s -cf - tree | tar -C /mnt -xf - && diff -r %[1]s/tree /mnt/tree && rm -r /mnt/tree %[1]s/copy", at))
		assert.NotEmpty(t, mustInGuest(t, fmt.Sprintf("ls -di %[1]s/. %[1]s/..", at)))
		out, status := tryInGuest(t, fmt.Sprintf("ln %s/tree/in/numbers /mnt/numbers 2>&1", at))
		assert.NotZero(t, status)
		assert.Contains(t, strings.ToLower(out), "cross-device", kind)
	}

	// Unmounted under load: the file system is lost to the client, and the rest goes on.
	users := []*holdProcess{startHold(t, "/mnt/xfs/held")}
	mustInGuest(t, "touch /tmp/load; (while [ -e /tmp/load ]; do cat /mnt/ext4/tree/in/numbers; done) >/dev/null 2>&1 & true")
	source := strings.TrimSpace(onHost(t, "/", "findmnt -no SOURCE "+dir+"/ext4 | cut -d[ -f1"))
	onHost(t, "/", "umount "+dir+"/ext4")
	eventually(t, func() bool {
		out, status := tryInGuest(t, "cat /mnt/ext4/tree/in/numbers 2>&1")
		return status != 0 && (strings.Contains(out, "tale") || strings.Contains(out, "No such file"))
	}, daemonLimit, pollEvery)
	assert.Equal(t, "own\n", mustInGuest(t, "cat /mnt/own"))
	checkAll(users)
	onHost(t, "/", "mount "+source+" "+dir+"/ext4")
	onHost(t, "/", "touch "+dir) // Linux keeps what it has looked up until the directory changes
	eventually(t, func() bool {
		out, _ := tryInGuest(t, "head -n 1 /mnt/ext4/tree/in/numbers")
		return out == "1\n"
	}, daemonLimit, pollEvery, "mounted again")
	mustInGuest(t, "rm -f /tmp/load")

	d.stopGracefully()
	d.startProcess()
	checkAll(users)
	users[0].endHold()
	assert.Equal(t, "1\n", mustInGuest(t, "head -n 1 /mnt/ext4/tree/in/numbers"))
	mustInGuest(t, "rm -rf /mnt/xfs/held; grep ' /mnt/' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n 1 umount; true")
	unmountInGuest(t, "/mnt")
}
