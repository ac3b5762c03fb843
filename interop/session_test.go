//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// procedures3 are the procedures of NFS version 3 that the workload must use.
var procedures3 = []string{
	"GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
	"REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
}

// operations4 are the COMPOUNDs over NFSv4, by the names that Linux gives them, that the
// workload must use.
var operations4 = []string{
	"EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ",
	"WRITE", "COMMIT", "OPEN", "CLOSE", "CREATE", "SYMLINK", "REMOVE", "RENAME", "LINK", "READDIR", "STATFS",
	"SERVER_CAPS", "FSINFO", "PATHCONF",
}

// sessionOps is how many of operations4 belong to sessions.
const sessionOps = 3

// runSession mounts the site and runs the workload in it (all of it, or these
// steps). Then it compares the guest's view on a new mount with the served
// directory.
func runSession(t *testing.T, s guestSite, transport string, steps ...string) {
	options, expected := s.mountOptions(transport), procedures3
	switch s.vers {
	case "":
	case "4.0":
		expected = append([]string{"SETCLIENTID", "SETCLIENTID_CONFIRM", "OPEN_CONFIRM"}, operations4[sessionOps:]...)
	default:
		expected = operations4
	}
	used := make(map[string]int)
	leave := func() {
		for name, n := range countProcedures(t) {
			used[name] += n
		}
		unmountInGuest(t, "/mnt")
	}
	s.mountInGuest(t, "/mnt", options)
	t.Cleanup(func() { s.runShell(t, "rm -rf work") })
	logTime(t, "workload", func() {
		out, status := tryInGuest(t, "mkdir /mnt/work && guestwork run /mnt/work "+strings.Join(steps, " "))
		t.Logf("%s", outputTail(out))
		assert.Zero(t, status)
	})
	leave()

	// READDIR alone must list the same entries as READDIRPLUS.
	s.mountInGuest(t, "/mnt", options+",nordirplus")
	plain := mustInGuest(t, "ls -lRn /mnt/work/names")
	leave()

	// Nothing is cached now.
	s.mountInGuest(t, "/mnt", options)
	assert.Equal(t, plain, mustInGuest(t, "ls -lRn /mnt/work/names"))
	var here, there string
	logTime(t, "manifest by the client", func() { there = mustInGuest(t, "guestwork manifest /mnt/work") })
	logTime(t, "manifest at the server", func() { here = s.readManifest(t, "work") })
	sameLines(t, here, there)
	if d, ok := s.servedDir.(hostDir); ok && len(steps) == 0 {
		d.checkContent(t, "work")
	}
	logTime(t, "removal", func() {
		mustInGuest(t, "cd /mnt/work; ls -d tree/* | xargs -r -P 4 -n 5 rm -rf; rm -rf /mnt/work")
	})
	assert.Empty(t, mustInGuest(t, "ls -A /mnt"))
	leave()
	for _, name := range expected {
		assert.Positive(t, used[name], "calls of %s", name)
	}
}

// countProcedures counts the calls of each procedure on the mount at /mnt.
func countProcedures(t *testing.T) map[string]int {
	n := make(map[string]int)
	out := mustInGuest(t, `sed -n '/ mounted on \/mnt with /,/^device/p' /proc/self/mountstats`)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) > 8 && strings.HasSuffix(f[0], ":") && f[1] != "0" {
			n[strings.TrimSuffix(f[0], ":")]++
		}
	}
	return n
}

// sameLines compares two manifests and shows the first difference.
func sameLines(t *testing.T, here, there string) {
	t.Helper()
	if here == there {
		return
	}
	a, b := strings.Split(here, "\n"), strings.Split(there, "\n")
	require.Equal(t, len(a), len(b), "objects")
	for i := range a {
		require.Equal(t, a[i], b[i])
	}
}
