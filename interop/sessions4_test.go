//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A listedSession is a session in the output of nfsrdmad clients.
type listedSession struct{ Slots, Connections int }

// sessionsOf returns the sessions of nfsrdmad's only client.
func sessionsOf(t *testing.T, control string) []listedSession {
	t.Helper()
	var list struct {
		Clients []struct{ Sessions []listedSession }
	}
	require.NoError(t, json.Unmarshal([]byte(onHost(t, "/", programPath("nfsrdmad")+" clients --json --control "+control)), &list))
	require.Len(t, list.Clients, 1)
	return list.Clients[0].Sessions
}

// TestSlots4 checks that Linux gets more slots when it uses all it has, returns them when it is
// idle, and uses the same slots again.
func TestSlots4(t *testing.T) {
	const lease = 10 * time.Second
	guest := sharedGuest(t)
	const parameter = "/sys/module/nfs/parameters/max_session_slots"
	before := strings.TrimSpace(mustInGuest(t, "modprobe nfsv4; cat "+parameter))
	mustInGuest(t, "echo 256 >"+parameter)
	t.Cleanup(func() { mustInGuest(t, "echo "+before+" >"+parameter) })
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--control", control, "--nfs4-lease", lease.String())
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("tcp", "wsize=4096", "rsize=4096"))
	slots := func() int {
		sessions := sessionsOf(t, control)
		require.Len(t, sessions, 1)
		return sessions[0].Slots
	}
	const work = "cd /mnt && seq %[1]d >f && sync f && echo 3 >/proc/sys/vm/drop_caches && seq %[1]d | cmp - f"
	for _, lines := range []int{400_000, 500_000} {
		done := make(chan string, 1)
		go func() {
			out, status, err := guest.Exec(t.Context(), fmt.Sprintf(work, lines))
			done <- fmt.Sprint(out, status, err)
		}()
		most := 0
		for result := ""; result == ""; {
			select {
			case result = <-done:
				require.Equal(t, "0 <nil>", result)
			case <-time.After(pollEvery):
			}
			most = max(most, slots())
		}
		t.Logf("%d slots", most)
		assert.Greater(t, most, 64)
		eventually(t, func() bool { return slots() == 8 }, 6*lease, pollEvery)
	}
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
	assert.NotContains(t, d.stderr.String(), "level=ERROR")
}

// TestTrunking4 checks that Linux uses one session over two addresses of nfsrdmad, with several
// connections to the first.
func TestTrunking4(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	dir := reachableDir(t)
	onHost(t, dir, `for d in a b; do mkdir $d; chmod 777 $d; echo $d >$d/name; done`)
	ip := shared.ethernet.inNamespace(t, "ip")
	onHost(t, "/", ip+" addr add "+otherEthernet+"/24 dev tap0")
	said := new(sharedBuffer)
	t.Cleanup(func() {
		tryInGuest(t, "grep ' nfs4 ' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n 1 umount -l")
		onHost(t, "/", ip+" addr del "+otherEthernet+"/24 dev tap0")
		if t.Failed() {
			t.Logf("nfsrdmad says:\n%s", said)
		}
	})
	control := filepath.Join(t.TempDir(), "control")
	d, err := StartServer(said, shared.ethernet.inNamespace(t, programPath("nfsrdmad")),
		"--control", control, "--listen", ":20049", "--tcp", ":2049", "--state", t.TempDir(), "--no-root-squash", dir+"/a", dir+"/b")
	require.NoError(t, err, "nfsrdmad says: %s", said)
	t.Cleanup(d.Kill)

	mountGuest4(t, "max_connect=2,nconnect=2", hostEthernet+":"+dir+"/a", "/mnt")
	mountGuest4(t, "max_connect=2", otherEthernet+":"+dir+"/b", "/mnt2")
	assert.Equal(t, "a\nb\n", mustInGuest(t, "cat /mnt/name /mnt2/name"))
	peers := mustInGuest(t, "ss -Htn state established")
	assert.Contains(t, peers, hostEthernet+":2049")
	assert.Contains(t, peers, otherEthernet+":2049")
	sessions := sessionsOf(t, control)
	require.Len(t, sessions, 1, "one session for both addresses")
	assert.GreaterOrEqual(t, sessions[0].Connections, 3)

	mustInGuest(t, "seq 100000 >/mnt/f && seq 100000 >/mnt2/f && echo 3 >/proc/sys/vm/drop_caches && seq 100000 | cmp - /mnt/f && seq 100000 | cmp - /mnt2/f")
	used := 0
	for line := range strings.Lines(mustInGuest(t, "sed -n '/ mounted on .mnt with /,/^device/p' /proc/self/mountstats | grep '^[[:space:]]*xprt:'")) {
		t.Log(strings.TrimSpace(line))
		if f := strings.Fields(line); len(f) > 8 && f[1] == "tcp" && f[7] != "0" { // calls that were sent
			used++
		}
	}
	assert.Equal(t, 3, used, "calls go by all connections")
	unmountAll4(t)
}
