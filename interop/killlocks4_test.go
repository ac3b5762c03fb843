//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

const (
	lockKills     = 3
	lockKillsSoak = 30
)

// TestKillLocks4 kills nfsrdmad while programs on two mounts of the guest, over
// RDMA and over TCP, lock parts of a file and count up, and once more while Linux
// reclaims.
func TestKillLocks4(t *testing.T) {
	sharedGuest(t)
	kills := lockKills
	if os.Getenv("INTEROP_SOAK") != "" {
		kills = lockKillsSoak
	}
	d := startDaemon(t, "--no-root-squash")
	before := d.openFiles()
	require.NoError(t, locking.MakeWork(d.dir))
	s := d.guestSite().withVersion("4.2")
	var programs []*transactProcess
	var sessions []*Session
	for _, c := range []struct{ transport, point string }{{"rdma", "/mnt"}, {"tcp", "/mnt2"}} {
		s.mountInGuest(t, c.point, s.mountOptions(c.transport))
		for range 2 {
			g, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("exec guestwork locks %s %d", c.point, 1+len(programs)))
			require.NoError(t, err)
			t.Cleanup(g.Close)
			sessions = append(sessions, g)
			programs = append(programs, watchTransactor(t, fmt.Sprint(c.transport, " ", len(programs)), g, g))
		}
	}
	goOn := func() {
		t.Helper()
		for _, p := range programs {
			p.awaitCount(p.doneCount() + 2)
		}
	}
	for kill := 1; kill <= kills; kill++ {
		goOn()
		time.Sleep(rand.N(200 * time.Millisecond))
		d.proc.Kill()
		d.startProcess()
		if kill%3 == 2 {
			time.Sleep(rand.N(2 * time.Second))
			d.proc.Kill()
			d.startProcess()
		}
		start := time.Now()
		goOn()
		t.Logf("kill %d: all have gone on after %.1f s", kill, time.Since(start).Seconds())
	}
	total := 0
	for i, p := range programs {
		require.NoError(t, sessions[i].CloseWrite())
		last := p.awaitLastLine()
		assert.Zero(t, sessions[i].Status(), "%s: %s", p.name, last)
		assert.Equal(t, fmt.Sprint(p.doneCount()), last)
		total += p.doneCount()
	}
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	count, err := locking.Worked(d.dir)
	require.NoError(t, err)
	assert.EqualValues(t, total, count)
	d.checkDescriptors(before)
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}
