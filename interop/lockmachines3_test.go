//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

// The host's and the second guest's addresses on the second guest's network.
const (
	secondEthernet = "10.0.5.2"
	secondGuest    = "10.0.5.15"
)

// TestLockMachines3 cuts the power of a machine that has a lock over NFSv3, for which a
// process of another machine waits. The process gets the lock once the client is expired,
// or once the machine is up again and tells that it has restarted.
func TestLockMachines3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	control := filepath.Join(t.TempDir(), "control")
	s := newLocks3Server(t, "--control", control)
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	answers := make(lockAnswers)
	waits, here := answers.startInGuest(t, "/mnt"), answers.startLocker(t, s.dir)
	wire := shared.ethernet.addWire(t, "tap1", secondEthernet)
	g := bootSecond(t, wire)
	defer func() { g.Close() }()
	for _, c := range []struct {
		name string
		free func(t *testing.T, monitored string)
	}{
		{"restarted", func(t *testing.T, monitored string) {
			g = bootSecond(t, wire)
			notify := pushProgram(t, g, "/usr/sbin/sm-notify")
			// As at the start of a machine with a disk: rpc.statd begins after sm-notify has counted.
			inGuest(t, g, fmt.Sprintf("killall rpc.statd; echo '%s' | base64 -d | tar -C /var/lib/nfs -xf - && %s -f && rpc.statd --no-notify", monitored, notify))
		}},
		{"expired", func(t *testing.T, _ string) {
			onHost(t, "/", fmt.Sprintf("%s clients --control %s --expire %s", programPath("nfsrdmad"), control, machineOf(t, control, secondGuest)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inGuest(t, g, "mount -t nfs -o vers=3,proto=tcp "+secondEthernet+":/x /mnt")
			has, err := newLockerIn(t, g, "/mnt")
			require.NoError(t, err)
			holder := make(lockAnswers)
			holder.openLocker(t, has)
			holder.runSteps(t, []lockStep{{has, "posix 1 write 0 10", "ok"}})
			asked := statusOf(t, control).callsOf("nlm4", "LOCK")
			fmt.Fprintln(waits, "posix-wait 1 write 5 1")
			eventually(t, func() bool { return statusOf(t, control).callsOf("nlm4", "LOCK") > asked }, daemonLimit, pollEvery)
			monitored := inGuest(t, g, "tar -C /var/lib/nfs -cf - sm state | base64")
			g.Close()
			answers.runSteps(t, []lockStep{{here, "posix-test 1 read 0 0", "write lock of 10 at 0"}})
			c.free(t, monitored)
			assert.Equal(t, "ok", answers.nextAnswer(t, waits))
			answers.runSteps(t, []lockStep{
				{here, "posix-test 1 read 0 0", "write lock of 1 at 5"},
				{waits, "posix 1 none 0 0", "ok"},
			})
		})
	}
	for _, p := range []locking.Child{waits, here} {
		assert.NoError(t, p.Wait())
	}
	unmountInGuest(t, "/mnt")
}

// bootSecond boots another guest at the end of a wire, whose address is secondGuest. The
// caller must close it.
func bootSecond(t *testing.T, wire *os.File) *Guest {
	t.Helper()
	dir, err := BuildGuest(t.Context(), "guest/build")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	g, err := Boot(ctx, Options{Dir: dir, Ethernet: wire})
	require.NoError(t, err)
	ready := false
	defer func() {
		if !ready { // the caller does not get it
			g.Close()
		}
	}()
	inGuest(t, g, fmt.Sprintf("ip addr flush dev eth2; ip addr add %s/24 dev eth2", secondGuest))
	require.NoError(t, g.Push(t.Context(), programPath("guestwork"), "/bin/guestwork"))
	ready = true
	return g
}

// inGuest runs a script in a guest, which must succeed.
func inGuest(t *testing.T, g *Guest, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), execLimit)
	defer cancel()
	out, status, err := g.Exec(ctx, script)
	require.NoError(t, err, script)
	require.Zero(t, status, "%s\n%s", script, outputTail(out))
	return out
}

// machineOf returns the client's ID at an address.
func machineOf(t *testing.T, control, addr string) string {
	t.Helper()
	var list struct {
		Clients []struct {
			ID        string
			Addresses []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(onHost(t, "/", programPath("nfsrdmad")+" clients --json --control "+control)), &list))
	for _, c := range list.Clients {
		if len(c.Addresses) == 1 && c.Addresses[0] == addr {
			return c.ID
		}
	}
	t.Fatalf("no client at %s: %v", addr, list)
	return ""
}
